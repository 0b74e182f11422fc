package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// Instance is a daemon that serves clients, as commands on the same data directory see it.
type Instance struct {
	PID      int           `json:"pid"`
	Started  time.Time     `json:"started"`
	Reloaded time.Time     `json:"reloaded,omitzero"`     // last attempt
	Files    []string      `json:"configuration"`         // files in effect
	Request  string        `json:"request,omitempty"`     // last handled request of RequestReload
	Error    string        `json:"error,omitempty"`       // why the last reload had no effect
	Warnings []string      `json:"warnings,omitempty"`    // of the last reload
	Failed   []string      `json:"unavailable,omitempty"` // servers that could not be started
	Servers  []ServerState `json:"servers,omitempty"`     // sorted by name; at most a second old
}

// ServerState is the state of a server's connection in a daemon.
type ServerState struct {
	Name   string    `json:"name"`
	State  string    `json:"state"` // not_connected, connecting, connected or failed
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason,omitempty"` // why it failed
	Hint   string    `json:"hint,omitempty"`   // remedy
}

// instances is the directory in which daemons announce themselves: each has a file NAME.json, and
// NAME.lock, which it keeps locked. The kernel releases the lock of a killed daemon.
type instances string

// requestFile contains the last request to reload.
func (d instances) requestFile() string { return filepath.Join(string(d), "reload") }

// request returns the last request to reload, "" if there is none.
func (d instances) request() string {
	b, err := os.ReadFile(d.requestFile())
	if err != nil {
		return ""
	}
	return string(b)
}

// announce creates the files of this process. stop removes them.
func (d instances) announce(i Instance) (update func(Instance) error, stop func() error, err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, nil, err
	}
	name := filepath.Join(string(d), fmt.Sprintf("%d-%s", i.PID, strings.ToLower(rand.Text()[:12])))
	lock := flock.New(name+".lock", flock.SetPermissions(0o600))
	if ok, err := lock.TryLock(); !ok {
		return nil, nil, fmt.Errorf("lock %s: %w", name, err)
	}
	update = func(i Instance) error {
		b, err := json.Marshal(i)
		if err != nil {
			return err
		}
		return durable.WriteFile(name+".json", b)
	}
	stop = func() error { return errors.Join(remove(name+".json"), remove(name+".lock"), lock.Close()) }
	if err := update(i); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return update, stop, nil
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// list returns the running daemons by start time, and removes the files of ended ones.
func (d instances) list() ([]Instance, error) {
	files, err := filepath.Glob(filepath.Join(string(d), "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Instance
	for _, file := range files {
		lock := strings.TrimSuffix(file, ".json") + ".lock"
		if !isLocked(lock) {
			_ = errors.Join(remove(file), remove(lock)) // names are never reused
			continue
		}
		var i Instance
		if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, &i) == nil {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b Instance) int { return a.Started.Compare(b.Started) })
	return all, nil
}

// isLocked takes a shared lock, so that concurrent checks do not mistake each other for the
// daemon.
func isLocked(path string) bool {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	l := flock.New(path, flock.SetFlag(os.O_RDONLY))
	defer l.Close()
	ok, err := l.TryRLock()
	return !ok && !errors.Is(err, fs.ErrNotExist)
}

// Instances returns the daemons that serve clients on the data directory of d.
func Instances(d *Daemon) ([]Instance, error) { return d.data.instances().list() }

// reloadPoll is the interval in which daemons look for a request to reload.
const reloadPoll = time.Second

// RequestReload asks all daemons on the data directory of d to reload their configuration, and waits
// for their answers until ctx ends. It returns the daemons with their answers; one whose Request
// differs from the returned request has not answered.
func RequestReload(ctx context.Context, d *Daemon) (all []Instance, request string, err error) {
	dir := d.data.instances()
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, "", err
	}
	request = rand.Text()
	if err := durable.WriteFile(dir.requestFile(), []byte(request)); err != nil {
		return nil, "", fault.Wrap(fault.Unavailable, err, "running daemons cannot be asked to reload")
	}
	for {
		if all, err = dir.list(); err != nil {
			return nil, request, err
		}
		if !slices.ContainsFunc(all, func(i Instance) bool { return i.Request != request }) {
			return all, request, nil
		}
		select {
		case <-time.After(reloadPoll / 20):
		case <-ctx.Done():
			return all, request, nil
		}
	}
}
