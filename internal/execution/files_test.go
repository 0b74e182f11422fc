package execution_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// newHome returns the home of a tenant, in all or, by default, in a new data directory.
func newHome(t testing.TB, name string, all ...*home.Homes) *home.Home {
	t.Helper()
	id, err := tenant.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		all = append(all, newTenants(t))
	}
	home, err := all[0].Acquire(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := home.Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return home
}

func newTenants(t testing.TB) *home.Homes { return openTenants(t, nil) }

// openTenants is newTenants with records of executions, unless process is nil.
func openTenants(t testing.TB, process *journal.Process) *home.Homes {
	t.Helper()
	// Code is not stored: the timer of a write would belong to the bubble of a test.
	all, err := home.Open(context.Background(), home.Config{Root: filepath.Join(t.TempDir(), "data"), RecentCode: -1, Process: process})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	return all
}

func readFile(t *testing.T, home *home.Home, name string) string {
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

func listFiles(t *testing.T, home *home.Home) []string {
	t.Helper()
	l, err := home.Workspace.List(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	return l.Files
}
