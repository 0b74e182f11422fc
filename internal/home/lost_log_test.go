package home_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// A tenant whose log was lost after a crash is refused everywhere, with the commands that restore it.
func TestTenantWithLostLogIsRefused(t *testing.T) {
	live, root := newRoot(t), filepath.Join(t.TempDir(), "data")
	h := acquire(t, open(t, home.Config{Root: live}), "a")
	if _, err := h.Skills.Save(t.Context(), skill.Draft{Name: "greet", Code: "def greet():\n    return 1\n",
		Description: "Greets."}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.CopyFS(root, os.DirFS(live)), os.Remove(filepath.Join(root, "private", "a", "tenant.db-wal"))); err != nil {
		t.Fatal(err)
	}
	ts := open(t, home.Config{Root: root})
	_, opened := ts.Acquire(t.Context(), id(t, "a"))
	_, copied := ts.Snapshot(t.Context(), id(t, "a"))
	var examined error
	if err := home.Examine(t.Context(), root, func(_ tenant.ID, err error) { examined = err }); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"acquired": opened, "copied": copied, "examined": examined} {
		if !strings.Contains(fault.Message(err), "deleted or cut") || !strings.Contains(fault.Hint(err),
			"sandpiper restore FILE --tenant a --replace") {
			t.Errorf("%s: %v; %s", what, err, fault.Hint(err))
		}
	}
	acquire(t, ts, "b")
}
