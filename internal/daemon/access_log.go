package daemon

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// accessLog is a file with a line for each request, which contains no content.
type accessLog struct {
	path string
	tier func(caller string) string
	log  *slog.Logger

	mu   sync.Mutex
	file *os.File
}

// accessLine is one line of the access log.
type accessLine struct {
	Time     time.Time `json:"time"`
	Tenant   string    `json:"tenant,omitempty"`
	Tier     string    `json:"tier,omitempty"`
	Remote   string    `json:"remote,omitempty"`
	Method   string    `json:"method"`
	Tool     string    `json:"tool,omitempty"`
	Subset   string    `json:"subset,omitempty"`
	Status   string    `json:"status"`             // ok, failed (the tool's answer is an error) or refused
	Code     int64     `json:"code,omitempty"`     // JSON-RPC error of a refused request
	BytesIn  int       `json:"bytes_in,omitempty"` // arguments of a tool call
	Duration float64   `json:"duration_ms"`
}

// openAccessLog opens the file; nil without a path.
func openAccessLog(path string, tier func(string) string, log *slog.Logger) (*accessLog, error) {
	if path == "" {
		return nil, nil
	}
	l := &accessLog{path: path, tier: tier, log: log}
	return l, l.reopen()
}

// reopen opens the file again, which another program may have renamed.
func (l *accessLog) reopen() error {
	if l == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the directory of the access log %s cannot be created", l.path)
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the access log %s cannot be opened", l.path).
			WithHint("http.access_log must name a file that this user can write")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
	l.file = f
	return nil
}

func (l *accessLog) add(a wire.Access) {
	line := accessLine{
		Time:     time.Now().UTC(),
		Tenant:   a.Caller,
		Remote:   a.Remote,
		Method:   a.Method,
		Tool:     a.Tool,
		Subset:   a.Subset,
		Status:   "ok",
		Code:     a.Code,
		BytesIn:  a.BytesIn,
		Duration: float64(a.Duration.Microseconds()) / 1000,
	}
	switch {
	case a.Code != 0:
		line.Status = "refused"
	case a.Failed:
		line.Status = "failed"
	}
	if a.Caller != "" {
		line.Tier = l.tier(a.Caller)
	}
	b, err := json.Marshal(line)
	if err != nil { // it contains strings and numbers only
		panic(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(append(b, '\n')); err != nil {
		l.log.Error("write the access log", "error", err)
	}
}

func (l *accessLog) close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// reportAccess returns what writes the access log; nil without one.
func (s HTTP) reportAccess() func(wire.Access) {
	if s.d.access == nil {
		return nil
	}
	return s.d.access.add
}

// tierOfCaller returns the tier of a caller, "" without one.
func (d limits) tierOfCaller(caller string) string {
	if d.now().Tenants == nil { // no tiers are configured
		return ""
	}
	id, err := tenant.ParseStored(caller)
	if err != nil {
		return ""
	}
	tier, err := d.Tiers.Of(id)
	if err != nil {
		return ""
	}
	return tier
}
