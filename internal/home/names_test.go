package home_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/state"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow/saved"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

func TestNamesAreOfOneTenantAndChangeNothing(t *testing.T) {
	root := newRoot(t)
	a, b := id(t, "tenant_a"), id(t, "tenant_b")
	if names, err := home.Names(t.Context(), root, a, skill.NameQuery); err == nil || names != nil {
		t.Errorf("without a data directory: %v, %v", names, err)
	}
	if _, err := os.Lstat(root); err == nil {
		t.Error("the data directory was created")
	}
	ts := open(t, home.Config{Root: root})
	h := acquire(t, ts, "tenant_a")
	for _, code := range []string{"x = 1", "x = 2"} {
		if _, err := h.Skills.Save(t.Context(), skill.Draft{Name: "rows", Code: code, Description: "Rows of " + code}); err != nil {
			t.Fatal(err)
		}
	}
	acquire(t, ts, "tenant_b")
	names, err := home.Names(t.Context(), root, a, skill.NameQuery)
	if diff := cmp.Diff([]store.Name{{Name: "rows", About: "Rows of x = 2"}}, names); diff != "" || err != nil {
		t.Errorf("the skills, %v:\n%s", err, diff)
	}
	for _, query := range []string{skill.NameQuery, session.NameQuery, state.NameQuery, saved.NameQuery,
		journal.WorkflowQuery, schedule.AgentQuery,
		approval.NameQuery, approval.OpenQuery, journal.UnfinishedQuery, journal.BackgroundQuery, journal.ActiveBackgroundQuery,
		vault.ExceptionQuery} {
		if names, err := home.Names(t.Context(), root, b, query); len(names) > 0 || err != nil {
			t.Errorf("%s: %v, %v", query, names, err)
		}
	}
	if _, err := home.Names(t.Context(), root, a, "DELETE FROM skills RETURNING name, ''"); err == nil {
		t.Error("a query changed the database")
	}
	if err := ts.Close(); err != nil {
		t.Fatal(err)
	}
	before := filesIn(t, filepath.Join(root, "private", a.Dir()))
	if names, err := home.Names(t.Context(), root, a, skill.NameQuery); len(names) != 1 || err != nil {
		t.Errorf("of a closed home: %v, %v", names, err)
	}
	if after := filesIn(t, filepath.Join(root, "private", a.Dir())); len(after) != len(before) {
		t.Errorf("%v were %v", after, before)
	}
	ids, err := home.TenantNames(root)
	if want := []string{"tenant_a", "tenant_b"}; !slices.Equal(ids, want) || err != nil {
		t.Errorf("tenants %v, %v; want %v", ids, err, want)
	}
}

func TestFileNamesDoNotFollowLinksOutOfTheWorkspace(t *testing.T) {
	root := newRoot(t)
	a := id(t, "tenant_a")
	h := acquire(t, open(t, home.Config{Root: root}), "tenant_a")
	write(t, h, "reports/one.csv", "1")
	dir := filepath.Join(root, "workspaces", a.Dir())
	if err := os.Symlink(root, filepath.Join(dir, "out")); err != nil {
		t.Skip(err)
	}
	for of, want := range map[string][]string{"": {"out", "reports/"}, "reports/": {"one.csv"}, "out/": nil, "..": nil, "/": nil} {
		if got, err := home.FileNames(root, a, of); !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q has %q, %v; want %q", of, got, err, want)
		}
	}
}

func filesIn(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
