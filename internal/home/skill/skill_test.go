package skill_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// home is the database and the projection of one tenant.
type home struct {
	*skill.Store
	db   *store.DB
	path string // of the database
	view string
	cfg  skill.Config
}

func open(t testing.TB, cfg skill.Config) *home {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), filepath.Join(dir, "t.db"), []store.Migration{{Number: 1, Name: "skills", SQL: skill.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	cfg.DB, cfg.Projection, cfg.Lock = db, filepath.Join(dir, "view"), filepath.Join(dir, "lock")
	if err := os.Mkdir(cfg.Projection, 0o755); err != nil {
		t.Fatal(err)
	}
	h := &home{reopen(t, cfg), db, filepath.Join(dir, "t.db"), cfg.Projection, cfg}
	if err := h.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// reopen returns a Store as another process has it.
func reopen(t testing.TB, cfg skill.Config) *skill.Store {
	t.Helper()
	return skill.New(cfg)
}

func (h *home) save(t testing.TB, name, code string, tags ...string) skill.Metadata {
	t.Helper()
	m, err := h.Save(t.Context(), skill.Draft{Name: name, Code: code, Description: "about " + name, Tags: tags})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (h *home) modules(t testing.TB) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(h.view)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(h.view, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != "__init__.py" {
			all[e.Name()] = string(b)
		}
	}
	if len(all) == len(entries) {
		t.Error("the projection has no __init__.py")
	}
	return all
}

func TestSaveLoadList(t *testing.T) {
	a, b := open(t, skill.Config{}), open(t, skill.Config{})
	m := a.save(t, "twice", "def twice(x): return 2 * x\n", "math", "small")
	got, err := a.Find(t.Context(), "twice", 0)
	if want := (skill.Skill{Name: "twice", Code: "def twice(x): return 2 * x\n", Metadata: m}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("loaded %+v, %v, want %+v", got, err, want)
	}
	if m.Version != 1 || !m.Created.Equal(m.Updated) || m.Created.IsZero() {
		t.Errorf("a new skill has %+v", m)
	}
	if l, err := a.List(t.Context()); err != nil || !cmp.Equal(l, []skill.Metadata{m}) {
		t.Errorf("listed %+v, %v", l, err)
	}
	if got := a.modules(t); !cmp.Equal(got, map[string]string{"twice.py": "def twice(x): return 2 * x\n"}) {
		t.Errorf("the projection contains %q", got)
	}
	if fi, err := os.Stat(filepath.Join(a.view, "twice.py")); err != nil || fi.Mode().Perm() != 0o644 {
		t.Errorf("the module has mode %v, %v", fi.Mode(), err)
	}

	if l, err := b.List(t.Context()); err != nil || len(l) != 0 || len(b.modules(t)) != 0 {
		t.Errorf("another tenant has %v, %v, %v", l, b.modules(t), err)
	}
	if _, err := b.Find(t.Context(), "twice", 0); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant loads it: %v", err)
	}
}

func TestMetadataJSONKeys(t *testing.T) {
	a := open(t, skill.Config{})
	b, err := json.Marshal(a.save(t, "x", "1"))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"name": "x", "description": "about x", "version": 1.0, "tags": []any{},
		"code_hash": "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
	} {
		if !cmp.Equal(got[key], want) {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if len(got) != 7 || got["created"] == nil || got["updated"] == nil {
		t.Errorf("keys are %v", got)
	}
}

func TestSaveAddsVersion(t *testing.T) {
	a := open(t, skill.Config{Versions: 3})
	first := a.save(t, "x", "code = 1")
	if again := a.save(t, "x", "code = 1"); !cmp.Equal(again, first) {
		t.Errorf("saving the same code changed %+v to %+v", again, first)
	}
	for i := 2; i <= 5; i++ {
		m := a.save(t, "x", fmt.Sprint("code = ", i))
		if m.Version != i || !m.Created.Equal(first.Created) || m.CodeHash == first.CodeHash {
			t.Errorf("version %d is %+v", i, m)
		}
	}
	if got := versions(t, a.db); got != "3,4,5" {
		t.Errorf("kept versions %s, want the last 3", got)
	}
	if got := a.modules(t)["x.py"]; got != "code = 5" {
		t.Errorf("code imports %q", got)
	}
}

func versions(t *testing.T, db *store.DB) (all string) {
	t.Helper()
	err := db.View(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT coalesce(group_concat(version), '') FROM (SELECT version FROM skills ORDER BY "+
			"version)").Scan(&all)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDelete(t *testing.T) {
	a := open(t, skill.Config{})
	a.save(t, "x", "1")
	a.save(t, "x", "2")
	a.save(t, "y", "3")
	if err := a.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	_, loadErr := a.Find(t.Context(), "x", 0)
	for _, err := range []error{loadErr, a.Delete(t.Context(), "x")} {
		if fault.KindOf(err) != fault.NotFound || fault.Message(err) != `there is no skill "x"` || fault.Hint(err) != "saved skills: y" {
			t.Errorf("got %v, hint %q", err, fault.Hint(err))
		}
	}
	if got := a.modules(t); !cmp.Equal(got, map[string]string{"y.py": "3"}) {
		t.Errorf("the projection contains %q", got)
	}
	if got := versions(t, a.db); got != "1" {
		t.Errorf("versions %s are left, want y's only", got)
	}
}

func TestSaveRejectsInvalidInput(t *testing.T) {
	a := open(t, skill.Config{})
	big := strings.Repeat("x", 1<<20+1)
	nameRule := ` is not allowed: use 1 to 100 letters a-z and A-Z, digits and '_', not starting with a digit`
	for _, c := range []struct {
		name, code, description string
		tags                    []string
		want                    string
	}{
		{"a-b", "1", "", nil, `skill name "a-b"` + nameRule},
		{"", "1", "", nil, `skill name ""` + nameRule},
		{"1a", "1", "", nil, `skill name "1a"` + nameRule},
		{"a\n", "1", "", nil, `skill name "a\n"` + nameRule},
		{"../x", "1", "", nil, `skill name "../x"` + nameRule},
		{"ünï", "1", "", nil, `skill name "ünï"` + nameRule},
		{strings.Repeat("n", 101), "1", "", nil, `skill name "` + strings.Repeat("n", 80) + `"` + nameRule},
		{"class", "1", "", nil, `skill name "class" is not allowed: it is a keyword of Python and cannot be imported`},
		{"None", "1", "", nil, `skill name "None" is not allowed: it is a keyword of Python and cannot be imported`},
		{"__init__", "1", "", nil, `skill name "__init__" is not allowed: names that begin and end with two underscores are Python's own`},
		{"x", " \n", "", nil, `the code of skill "x" must not be empty`},
		{"x", big, "", nil, `the code of skill "x" has 1048577 bytes: up to 1048576 are allowed`},
		{"x", "\xff", "", nil, `the code of skill "x" is not valid UTF-8`},
		{"x", "a\x00b", "", nil, `the code of skill "x" contains a NUL character, which Python refuses`},
		{"x", "1", big[:5000], nil, `the description of skill "x" is not allowed: use up to 4096 bytes of UTF-8, this has 5000`},
		{"x", "1", "", make([]string, 21), `skill "x" has 21 tags: up to 20 are allowed`},
		{"x", "1", "", []string{"ok", ""}, `tag "" is not allowed: use 1 to 100 bytes of UTF-8`},
	} {
		_, err := a.Save(t.Context(), skill.Draft{Name: c.name, Code: c.code, Description: c.description, Tags: c.tags})
		if fault.Message(err) != c.want || fault.KindOf(err) != fault.Invalid {
			t.Errorf("got %v %q, want %q", fault.KindOf(err), fault.Message(err), c.want)
		}
	}
	for _, name := range []string{"match", "type", "_", "_x", "X9"} {
		a.save(t, name, "1")
	}
}

func TestRejectedSaveChangesNothing(t *testing.T) {
	a := open(t, skill.Config{MaxBytes: 1000})
	a.save(t, "x", strings.Repeat("a", 600))
	_, err := a.Save(t.Context(), skill.Draft{Name: "x", Code: strings.Repeat("b", 600)})
	if fault.KindOf(err) != fault.Exhausted || !strings.Contains(fault.Message(err),
		"would have 1200 bytes of code; at most 1000 are allowed") {
		t.Errorf("got %v", err)
	}
	if got := a.modules(t)["x.py"]; got != strings.Repeat("a", 600) {
		t.Errorf("the projection contains %q", got)
	}
	if sk, err := a.Find(t.Context(), "x", 0); err != nil || sk.Metadata.Version != 1 {
		t.Errorf("%+v, %v", sk, err)
	}
}

func TestRefreshRepairsProjection(t *testing.T) {
	a := open(t, skill.Config{})
	a.save(t, "x", "1")
	a.save(t, "y", "2")
	inode := stat(t, a.view)
	spoil := func() {
		os.WriteFile(filepath.Join(a.view, "x.py"), []byte("wrong"), 0o644)
		os.Remove(filepath.Join(a.view, "y.py"))
		os.WriteFile(filepath.Join(a.view, "deleted.py"), []byte("z"), 0o644)
		os.MkdirAll(filepath.Join(a.view, "__pycache__/deep"), 0o755)
		os.WriteFile(filepath.Join(a.view, "__pycache__/x.pyc"), []byte("z"), 0o644)
		os.Remove(filepath.Join(a.view, "__init__.py"))
		os.Mkdir(filepath.Join(a.view, "__init__.py"), 0o755)
	}
	spoil()
	if err := reopen(t, a.cfg).Refresh(t.Context()); err != nil { // as the next process does
		t.Fatal(err)
	}
	want := map[string]string{"x.py": "1", "y.py": "2"}
	if got := a.modules(t); !cmp.Equal(got, want) {
		t.Errorf("the projection contains %q, want %q", got, want)
	}
	if !os.SameFile(inode, stat(t, a.view)) {
		t.Error("the directory was replaced: sandboxes that mounted it still see the old one")
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi
}

// TestRefreshProjectsSaveOfKilledProcess simulates a process that was killed after its commit: other
// processes detect the save by the change count.
func TestRefreshProjectsSaveOfKilledProcess(t *testing.T) {
	a := open(t, skill.Config{})
	cfg := a.cfg
	cfg.Projection = t.TempDir()
	elsewhere := reopen(t, cfg) // commits to the same database and does not update a's projection
	if _, err := elsewhere.Save(t.Context(), skill.Draft{Name: "x", Code: "1"}); err != nil {
		t.Fatal(err)
	}
	if got := a.modules(t); len(got) != 0 {
		t.Fatalf("the projection contains %q already", got)
	}
	if err := a.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := a.modules(t); !cmp.Equal(got, map[string]string{"x.py": "1"}) {
		t.Errorf("the projection contains %q", got)
	}
}

func TestSaveReportsProjectionError(t *testing.T) {
	a := open(t, skill.Config{})
	if err := os.RemoveAll(a.view); err != nil {
		t.Fatal(err)
	}
	_, err := a.Save(t.Context(), skill.Draft{Name: "x", Code: "1"})
	if fault.KindOf(err) != fault.Unavailable || !strings.HasPrefix(fault.Message(err), `skill "x" is saved, but`) {
		t.Errorf("got %v", err)
	}
	if sk, err := a.Find(t.Context(), "x", 0); err != nil || sk.Code != "1" {
		t.Errorf("%+v, %v", sk, err)
	}
}

// TestStoresOfOneDatabaseConverge hammers one database and projection through several
// Stores, each with its own lock file descriptor as in a process of its own.
func TestStoresOfOneDatabaseConverge(t *testing.T) {
	a := open(t, skill.Config{})
	var all sync.WaitGroup
	for i := range 4 {
		s := reopen(t, a.cfg)
		all.Go(func() {
			for j := range 15 {
				name := fmt.Sprint("s", j%3)
				if _, err := s.Save(t.Context(), skill.Draft{Name: name, Code: fmt.Sprintf("by = %d, %d", i, j)}); err != nil {
					t.Errorf("saving: %v", err)
				}
				if j%5 == i {
					if err := s.Delete(t.Context(), name); err != nil && fault.KindOf(err) != fault.NotFound {
						t.Errorf("deleting: %v", err)
					}
				}
				if err := s.Refresh(t.Context()); err != nil {
					t.Errorf("refreshing: %v", err)
				}
			}
		})
	}
	all.Wait()
	want := map[string]string{}
	l, err := a.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range l {
		sk, err := a.Find(t.Context(), m.Name, 0)
		if err != nil {
			t.Fatal(err)
		}
		want[m.Name+".py"] = sk.Code
	}
	if got := a.modules(t); !cmp.Equal(got, want) {
		t.Errorf("the projection contains %q, the database %q", got, want)
	}
}

func BenchmarkRefreshUnchanged(b *testing.B) {
	a := open(b, skill.Config{})
	a.save(b, "x", "1")
	for b.Loop() {
		if err := a.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSave(b *testing.B) {
	a := open(b, skill.Config{})
	for i := 0; b.Loop(); i++ {
		a.save(b, "x", fmt.Sprint("code = ", i))
	}
}
