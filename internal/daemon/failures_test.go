package daemon

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

// A daemon that has not used a server knows why the last one could not.
func TestLastFailureIsKeptForTheNextDaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := config.Config{DataDir: filepath.Join(dir, "data"), CacheDir: filepath.Join(dir, "cache"),
		Servers: []config.Server{{Name: "crm", Command: "no-such-program"}}}
	open := func() *Daemon {
		d, err := New(Config{Config: c, Version: "test", Backend: func(context.Context) (sandbox.Backend,
			error) {
			return fake.New(fake.Config{}), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	first := open()
	if s := first.Find.Servers().Servers[0]; s.State != "stopped" || s.Hint != "" {
		t.Errorf("%+v", s)
	}
	if _, err := first.Servers.List(t.Context(), "crm"); err == nil {
		t.Fatal("it was listed")
	}
	second := open()
	if s := second.Find.Servers().Servers[0]; s.State != "stopped" || s.Reason != "" || !strings.HasPrefix(s.Hint,
		"its last start failed at 20") || !strings.HasSuffix(s.Hint,
		`: server "crm" cannot be started: program "no-such-program" not found`) {
		t.Errorf("%+v", s)
	}
	if f, ok := LastFailure(second, c.Servers[0]); !ok || f.At.IsZero() || strings.Contains(f.Reason, "next attempt") {
		t.Errorf("%+v, %v", f, ok)
	}
	c.Servers[0].Command = "another-program"
	if f, ok := LastFailure(second, c.Servers[0]); ok {
		t.Errorf("a changed server has failed: %+v", f)
	}
}
