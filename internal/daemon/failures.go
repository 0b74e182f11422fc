package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Failure is the last failure to connect to a server or to list its tools.
type Failure struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	Hint   string    `json:"hint,omitempty"` // remedy
}

// failures is the directory with the last failure of each server, of any process. The file of a server is
// removed when the server works again.
type failures struct {
	dir string
	log *slog.Logger
}

// path returns the file of a server. A server whose command or address was changed has another one.
func (d failures) path(server, identity string) string {
	sum := sha256.Sum256([]byte(server + "\x00" + identity))
	return filepath.Join(d.dir, hex.EncodeToString(sum[:12])+".json")
}

func (d failures) put(server, identity string, f Failure) error {
	b, err := json.Marshal(f)
	if err == nil {
		err = os.MkdirAll(d.dir, 0o700)
	}
	if err != nil {
		return err
	}
	return durable.WriteFile(d.path(server, identity), b)
}

func (d failures) find(server, identity string) (f Failure, ok bool) {
	b, err := os.ReadFile(d.path(server, identity))
	return f, err == nil && json.Unmarshal(b, &f) == nil
}

// note records whether a server could be started.
func (d failures) note(s upstream.Server, wrong error) {
	var err error
	if wrong == nil {
		err = remove(d.path(s.Name, s.Identity))
	} else {
		err = d.put(s.Name, s.Identity, Failure{time.Now().UTC().Truncate(time.Second), fault.Message(wrong), fault.Hint(wrong)})
	}
	if err != nil {
		d.log.Warn("the last failure of a server was not recorded", "server", s.Name, "error", err)
	}
}

// noteListing records whether the tools of a server could be listed.
func (v *servers) noteListing(name string, wrong error) {
	s, ok := v.now.Load().server(name)
	if !ok {
		return
	}
	isFailed := func(s upstream.State) bool { return s.Name == name && s.State == upstream.Failed }
	if wrong == nil || !slices.ContainsFunc(v.Set.States(), isFailed) { // otherwise it was recorded at the start
		v.failures.note(s, wrong)
	}
}

// LastFailure returns the last failure of a server that has not worked since.
func LastFailure(d *Daemon, s config.Server) (Failure, bool) {
	return d.Servers.failures.find(s.Name, identity(s))
}

// states returns the states of the servers as a tenant uses them. The hint of one that is not connected
// is its last failure. One that will be started for a request to list its tools is starting.
func (v *servers) states(id tenant.ID) []upstream.State {
	all := v.own.states(id)
	for i, state := range all {
		if state.State != upstream.Stopped || v.own.of(id, state.Name) != v.Set {
			continue
		}
		if v.isListing(state.Name) {
			all[i].State = upstream.Starting
			continue
		}
		s, _ := v.now.Load().server(state.Name)
		if f, ok := v.failures.find(s.Name, s.Identity); ok {
			all[i].Hint = "its last start failed at " + f.At.Format(time.RFC3339) + ": " + f.Reason
		}
	}
	return all
}
