package home_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// features are those with tables.
var features = []home.Feature{schedule.Feature().Home}

func open(t testing.TB, cfg home.Config) *home.Homes {
	t.Helper()
	cfg.Features = features
	ts, err := home.Open(t.Context(), withUIDs(cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ts.Close() })
	return ts
}

// withUIDs gives each tenant its own uid if root runs the test and it does not set UIDs.
func withUIDs(cfg home.Config) home.Config {
	if os.Geteuid() == 0 && cfg.UIDs == 0 {
		cfg.FirstUID, cfg.UIDs = 200_000, 65_536
	}
	return cfg
}

func id(t testing.TB, name string) tenant.ID {
	t.Helper()
	id, err := tenant.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func acquire(t testing.TB, ts *home.Homes, name string) *home.Home {
	t.Helper()
	h, err := ts.Acquire(t.Context(), id(t, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Release(context.Background()) })
	return h
}

func newRoot(t testing.TB) string { return filepath.Join(t.TempDir(), "deep", "data") }

func write(t testing.TB, h *home.Home, name, content string) {
	t.Helper()
	if err := h.Workspace.Write(t.Context(), name, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

func read(h *home.Home, name string) string {
	p, err := h.Workspace.Read(context.Background(), name, 0, 0)
	if err != nil {
		return fault.Message(err)
	}
	return string(p.Content)
}

func save(t testing.TB, h *home.Home, name, code string) {
	t.Helper()
	if _, err := h.Skills.Save(t.Context(), skill.Draft{Name: name, Code: code}); err != nil {
		t.Fatal(err)
	}
}

func TestTenantsAreIsolated(t *testing.T) {
	ts := open(t, home.Config{Root: newRoot(t)})
	a, b := acquire(t, ts, "a"), acquire(t, ts, "b")
	write(t, a, "file", "of a")
	save(t, a, "x", "1")
	if l, err := b.Workspace.List(t.Context(), "."); err != nil || len(l.Files) != 0 {
		t.Errorf("b has files %v, %v", l.Files, err)
	}
	if l, err := b.Skills.List(t.Context()); err != nil || len(l) != 0 {
		t.Errorf("b has skills %v, %v", l, err)
	}
	if l, err := b.Workspace.List(t.Context(), "skills"); err != nil || !cmp.Equal(l.Files, []string{"skills/__init__.py"}) {
		t.Errorf("b can import %v, %v", l.Files, err)
	}
	if a.ID().String() != "a" || a.ID() == b.ID() {
		t.Errorf("ids %v and %v", a.ID(), b.ID())
	}
}

func TestDataSurvivesReopen(t *testing.T) {
	root := newRoot(t)
	for i := range 3 {
		ts := open(t, home.Config{Root: root})
		h := acquire(t, ts, "local")
		if i > 0 && (read(h, "file") != "content" || read(h, "skills/x.py") != "x = 1") {
			t.Errorf("found %q and %q", read(h, "file"), read(h, "skills/x.py"))
		}
		write(t, h, "file", "content")
		save(t, h, "x", "x = 1")
		if err := errors.Join(h.Release(t.Context()), h.Release(t.Context()), ts.Close(), ts.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMountsMatchHome(t *testing.T) {
	ts := open(t, home.Config{Root: newRoot(t)})
	h := acquire(t, ts, "a")
	write(t, h, "file", "f")
	save(t, h, "x", "x = 1")
	want := []sandbox.Mount{
		{Target: "/workspace", Root: "workspaces", Name: "a"},
		{Target: "/workspace/skills", Root: "skills", Name: "a", ReadOnly: true},
		{Target: "/workspace/sessions", Root: "sessions", Name: "a", ReadOnly: true},
	}
	if got := h.Mounts(); !cmp.Equal(got, want) {
		t.Errorf("mounts %+v, want %+v", got, want)
	}
	for i, file := range []string{"file", "x.py"} {
		m := h.Mounts()[i]
		if _, err := os.Stat(filepath.Join(ts.Roots()[m.Root], m.Name, file)); err != nil {
			t.Error(err)
		}
	}
	if fi, err := os.Stat(filepath.Join(ts.Roots()["workspaces"], "a", "skills")); err != nil || !fi.IsDir() {
		t.Errorf("no mount point for skills: %v", err)
	}
}

func TestDataDirectoryPermissions(t *testing.T) {
	root := newRoot(t)
	open(t, home.Config{Root: root}).Close()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	ts := open(t, home.Config{Root: root})
	h := acquire(t, ts, "a")
	save(t, h, "x", "x = 1")
	for path, want := range map[string]os.FileMode{
		".": 0o700, "workspaces/a": 0o700, "private/a": 0o700, "private/a/tenant.db": 0o600, "private/a/tenant.db-wal": 0o600,
		"projections/skills/a": 0o755, "projections/skills/a/x.py": 0o644,
	} {
		if fi, err := os.Stat(filepath.Join(root, path)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v, want %v", path, fi.Mode().Perm(), err, want)
		}
	}
}

func TestOpenRejectsUnsuitableDirectories(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	other, newer, damaged, file := at("other"), at("newer"), at("damaged"), at("file")
	for _, d := range []string{other, newer, damaged} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, content := range map[string]string{other + "/letter.txt": "x", newer + "/format": "2\n", damaged + "/format": "?", file: ""} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for root, want := range map[string]string{
		"":           "data directory is missing",
		other:        "the directory " + other + " is not empty and is not a Sandpiper data directory",
		newer:        "the data directory " + newer + " has format 2, this Sandpiper knows formats up to 1",
		damaged:      "the file " + damaged + "/format is damaged: want a number, such as 1",
		file:         "the data directory " + file + " cannot be created: a part of the path is a file",
		file + "/in": "the data directory " + file + "/in cannot be created: a part of the path is a file",
	} {
		if _, err := home.Open(t.Context(), home.Config{Root: root}); fault.Message(err) != want {
			t.Errorf("%s: got %q (%v), want %q", root, fault.Message(err), err, want)
		}
	}
	if fi, err := os.Stat(other); err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("a directory that is not ours was changed to %v, %v", fi.Mode(), err)
	}
}

func TestConcurrentAcquireOpensOnce(t *testing.T) {
	ts := open(t, home.Config{Root: newRoot(t), Idle: 2})
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			h, err := ts.Acquire(t.Context(), id(t, fmt.Sprint("t", i%5)))
			if err != nil {
				t.Errorf("acquiring: %v", err)
				return
			}
			name := fmt.Sprint("file", i)
			if err := h.Workspace.Write(t.Context(), name, []byte(h.ID().String())); err != nil {
				t.Errorf("writing: %v", err)
			}
			if _, err := h.Skills.Save(t.Context(), skill.Draft{Name: "x", Code: fmt.Sprint("x = ", i)}); err != nil {
				t.Errorf("saving: %v", err)
			}
			if got := read(h, name); got != fmt.Sprint("t", i%5) {
				t.Errorf("read %q", got)
			}
			if err := h.Release(t.Context()); err != nil {
				t.Errorf("releasing: %v", err)
			}
		})
	}
	all.Wait()
	for i := range 5 {
		if l, err := acquire(t, ts, fmt.Sprint("t", i)).Workspace.List(t.Context(), "."); err != nil || len(l.Files) != 8 {
			t.Errorf("t%d has %d files, %v, want 8", i, len(l.Files), err)
		}
	}
}

func TestCloseKeepsHomesInUse(t *testing.T) {
	ts := open(t, home.Config{Root: newRoot(t)})
	h := acquire(t, ts, "a")
	if err := ts.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, h, "file", "late")
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := ts.Acquire(t.Context(), id(t, "a")); fault.Message(err) != "the data directory is closed" {
		t.Errorf("Acquire after Close: %v", err)
	}
}

func TestAcquireRetriesFailedOpen(t *testing.T) {
	root := newRoot(t)
	ts := open(t, home.Config{Root: root})
	inTheWay := filepath.Join(root, "private", "a")
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ts.Acquire(t.Context(), id(t, "a")); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	write(t, acquire(t, ts, "a"), "file", "x")
}

func TestDamagedDatabaseAffectsOneTenant(t *testing.T) {
	root := newRoot(t)
	ts := open(t, home.Config{Root: root, Idle: -1})
	acquire(t, ts, "a").Release(t.Context())
	db := filepath.Join(root, "private/a/tenant.db")
	if err := os.WriteFile(db, []byte(strings.Repeat("damage", 3000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ts.Acquire(t.Context(), id(t, "a"))
	if fault.Message(err) != "the database is damaged" || strings.Contains(fault.Message(err)+fault.Hint(err), root) {
		t.Errorf("got %v", err)
	}
	write(t, acquire(t, ts, "b"), "file", "x")
}

func TestAcquireRejectsZeroID(t *testing.T) {
	ts := open(t, home.Config{Root: newRoot(t)})
	if _, err := ts.Acquire(t.Context(), tenant.ID{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
}

func TestPlantedSkillsDirectoryIsMovedAside(t *testing.T) {
	root := newRoot(t)
	ts := open(t, home.Config{Root: root, Idle: -1})
	acquire(t, ts, "a").Release(t.Context())
	mount := filepath.Join(root, "workspaces/a/skills")
	if err := errors.Join(os.Remove(mount), os.Symlink("/etc", mount)); err != nil {
		t.Fatal(err)
	}
	h := acquire(t, ts, "a")
	if fi, err := os.Lstat(mount); err != nil || !fi.IsDir() {
		t.Errorf("the mount point is %v, %v", fi.Mode(), err)
	}
	if to, err := os.Readlink(mount + ".moved-1"); err != nil || to != "/etc" {
		t.Errorf("the link is now %q, %v", to, err)
	}
	if got := read(h, "skills/passwd"); got != `there is no "skills/passwd" in the workspace` {
		t.Errorf("read %q", got)
	}
}

func BenchmarkFirstAcquire(b *testing.B) {
	root := newRoot(b)
	acquire(b, open(b, home.Config{Root: root}), "local").Release(b.Context())
	for b.Loop() {
		ts, err := home.Open(b.Context(), home.Config{Root: root})
		if err != nil {
			b.Fatal(err)
		}
		h, err := ts.Acquire(b.Context(), tenant.Local)
		if err != nil {
			b.Fatal(err)
		}
		h.Release(b.Context())
		ts.Close()
	}
}

func BenchmarkAcquireAgain(b *testing.B) {
	ts := open(b, home.Config{Root: newRoot(b)})
	for b.Loop() {
		h, err := ts.Acquire(b.Context(), tenant.Local)
		if err != nil {
			b.Fatal(err)
		}
		h.Release(b.Context())
	}
}

// BenchmarkAcquireInTurn opens homes that do not stay open, as with more active tenants than
// Config.Idle.
func BenchmarkAcquireInTurn(b *testing.B) {
	const tenants = 50
	ts := open(b, home.Config{Root: newRoot(b), Idle: -1})
	for i := range tenants {
		h := acquire(b, ts, fmt.Sprint("t", i))
		for n := range 5 {
			write(b, h, fmt.Sprintf("data/%d.csv", n), strings.Repeat("a,b,c\n", 100))
		}
		save(b, h, "count", "def run():\n    return 1\n")
		h.Release(b.Context())
	}
	n := 0
	for b.Loop() {
		h, err := ts.Acquire(b.Context(), id(b, fmt.Sprint("t", n%tenants)))
		if err != nil {
			b.Fatal(err)
		}
		h.Release(b.Context())
		n++
	}
}
