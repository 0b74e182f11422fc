package mcpserver_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/passthrough"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

func TestMain(m *testing.M) {
	upstreamtest.Main()
	os.Exit(m.Run())
}

// newPassthrough returns an Aggregator for scripted servers. The tools of each server are listed; if there is
// a script "later NAME", it then replaces the script of the server and the tools are listed again.
func newPassthrough(t *testing.T, scripts map[string][]byte) *builtin.Relay {
	t.Helper()
	dir := t.TempDir()
	var known catalog.Config
	var up upstream.Config
	for name, script := range scripts {
		if strings.HasPrefix(name, "later ") {
			continue
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, script, 0o600); err != nil {
			t.Fatal(err)
		}
		known.Servers = append(known.Servers, catalog.Configured{Name: name})
		up.Servers = append(up.Servers, upstream.Server{Name: name,
			Kind: upstream.Program{Command: upstreamtest.Command(t), Env: upstreamtest.Env(file)}})
	}
	known.Dir = filepath.Join(dir, "catalog")
	c, err := catalog.Open(known)
	if err != nil {
		t.Fatal(err)
	}
	set, err := upstream.New(up)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	for _, s := range slices.Clone(up.Servers) {
		list(t, c, set, s.Name)
		if later := scripts["later "+s.Name]; later != nil {
			if err := os.WriteFile(filepath.Join(dir, s.Name), later, 0o600); err != nil {
				t.Fatal(err)
			}
			list(t, c, set, s.Name)
		}
	}
	all := passthrough.New(passthrough.Config{Catalog: c, Servers: set, Calls: toolcall.New(toolcall.Config{Catalog: c, Upstream: set})})
	t.Cleanup(all.Close)
	return passthrough.Relay(all)
}

// list requests the tools of a server and stores them in the catalog.
func list(t *testing.T, c *catalog.Catalog, set *upstream.Set, name string) {
	t.Helper()
	listing, err := set.List(t.Context(), name)
	if err == nil {
		_, err = c.Put(t.Context(), name, catalog.Listing{Resources: listing.Info.Resources, Prompts: listing.Info.Prompts,
			Tools: listing.Tools})
	}
	if err != nil {
		t.Fatal(err)
	}
}
