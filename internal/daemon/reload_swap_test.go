package daemon

import (
	"context"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

// What tenants may use is swapped by catalog.Update, which lets nobody see the servers of one
// configuration with the selection of another (TestUpdateSwapsWhileNobodyLooks there), and before the new
// servers are there.
func TestServersAndSelectionAreSwappedTogether(t *testing.T) {
	dir := t.TempDir()
	c := config.Config{DataDir: filepath.Join(dir, "data"), CacheDir: filepath.Join(dir, "cache")}
	d, err := New(Config{Config: c, Version: "test", Backend: func(context.Context) (sandbox.Backend,
		error) {
		return fake.New(fake.Config{}), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c.Servers = []config.Server{{Name: "new", Command: "none"}}
	next, err := newServerSet(&c)
	if err != nil {
		t.Fatal(err)
	}
	swapped := 0
	swap := func() {
		swapped++
		if stack := string(debug.Stack()); !strings.Contains(stack, "catalog.(*Catalog).Update(") {
			t.Errorf("the selection is swapped outside of Update:\n%s", stack)
		}
		if _, there := d.Servers.Catalog.Now().Server("new"); there {
			t.Error("the new server is there before the selection")
		}
	}
	if err := d.Servers.replace(t.Context(), &c, next, swap, &Reloaded{}); err != nil || swapped != 1 {
		t.Errorf("swapped %d times, %v", swapped, err)
	}
	if _, there := d.Servers.Catalog.Now().Server("new"); !there {
		t.Error("the new server is not there")
	}
}
