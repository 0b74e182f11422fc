package execution_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tenants"
	"github.com/sandpiper-mcp/sandpiper/internal/workspace"
)

func newHome(t testing.TB, name string) *tenants.Home {
	id, err := tenant.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return tenants.New(id, t.TempDir())
}

func readFile(t *testing.T, home *tenants.Home, name string) string {
	t.Helper()
	c, err := home.Workspace.Read(t.Context(), name, 0, workspace.MaxPage)
	if fault.KindOf(err) == fault.NotFound {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(c.Content)
}

func listFiles(t *testing.T, home *tenants.Home) []string {
	t.Helper()
	l, err := home.Workspace.List(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	return l.Files
}
