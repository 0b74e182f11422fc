package daemon

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Another process stores the tools of a server, and has not written its modules yet.
func TestKnowWritesWhatAnotherProcessListed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := config.Config{DataDir: filepath.Join(dir, "data"), CacheDir: filepath.Join(dir, "cache"),
		Servers: []config.Server{{Name: "crm", Command: "none"}}}
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
	ours, other := open(), open()
	ours.Servers.Know(t.Context())
	if _, err := other.Servers.Catalog.Put(t.Context(), "crm",
		catalog.Listing{Tools: []tool.Definition{{Ref: tool.Ref{Server: "crm", Tool: "find"},
			Input: json.RawMessage(`{"type":"object"}`)}}}); err != nil {
		t.Fatal(err)
	}
	for listed := false; !listed; time.Sleep(10 * time.Millisecond) { // it looks once a second
		s, _ := ours.Servers.Catalog.Now().Server("crm")
		listed = !s.Listed.IsZero()
	}
	if why := ours.Servers.Know(t.Context(), "crm"); len(why) > 0 {
		t.Fatal(why)
	}
	wantFind(t, c.DataDir)
}

// wantFind checks that the modules in a data directory have the tool find of the server crm.
func wantFind(t *testing.T, data string) {
	t.Helper()
	found := false
	err := filepath.WalkDir(data, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(name) != "__init__.py" || filepath.Base(filepath.Dir(name)) != "crm" {
			return err
		}
		text, err := os.ReadFile(name)
		found = found || strings.Contains(string(text), `"find"`)
		return err
	})
	if err != nil || !found {
		t.Errorf("the module of the server has no tool: %v", err)
	}
}

// A process that has read the catalog before another one stored the tools of a server does not overwrite the modules that
// the other one has written since.
func TestModulesOfAnotherProcessAreNotOverwritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := config.Config{DataDir: filepath.Join(dir, "data"), CacheDir: filepath.Join(dir, "cache"), Servers: []config.Server{{Name: "crm", Command: "none"}}}
	open := func() *Daemon {
		d, err := New(Config{Config: c, Version: "test", Backend: func(context.Context) (sandbox.Backend, error) { return fake.New(fake.Config{}), nil }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	ours, other := open(), open()
	ours.Servers.Catalog.Now()
	if _, err := other.Servers.store(t.Context(), "crm", catalog.Listing{Tools: []tool.Definition{{Ref: tool.Ref{Server: "crm",
		Tool: "find"}, Input: json.RawMessage(`{"type":"object"}`)}}}); err != nil {
		t.Fatal(err)
	}
	wantFind(t, c.DataDir)
	ours.Servers.writing.Lock()
	ours.Servers.modules.write(t.Context(), ours.Servers.Catalog)
	ours.Servers.writing.Unlock()
	wantFind(t, c.DataDir)
}

// A request that no longer waits says that the server is starting, even before the start has begun.
func TestServerThatWillBeStartedIsStarting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := New(Config{Config: config.Config{DataDir: filepath.Join(dir, "data"), CacheDir: filepath.Join(dir, "cache"),
		Servers: []config.Server{{Name: "crm", Command: "sleep", Args: []string{"60"}}}}, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	d.Servers.Know(t.Context())
	late, cancel := context.WithCancel(t.Context())
	cancel()
	d.Servers.Know(late, "crm")
	if states := d.Servers.states(tenant.ID{}); len(states) != 1 || states[0].State != upstream.Starting {
		t.Errorf("%+v", states)
	}
}
