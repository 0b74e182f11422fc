package skilltest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

var recorded = Test{
	Code:    "from skills import x",
	Answers: []Answer{{Method: "call_tool", Args: []byte(`{"a":1}`), Answer: journal.Answer{Value: []byte(`"the secret answer"`)}}},
	Result:  shape.Learn([]byte(`[1]`)),
}

// tenant is a tenant with skills.
type tenant struct {
	*Store
	path string // of the database
}

func open(t *testing.T) tenant {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "t.db")
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "skills", SQL: skill.Tables + sealed.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	view := filepath.Join(dir, "view")
	if err := os.Mkdir(view, 0o755); err != nil {
		t.Fatal(err)
	}
	skills := skill.New(skill.Config{DB: db, Projection: view, Lock: filepath.Join(dir, "lock")})
	return tenant{newStore(skills, sealed.Store{DB: db, Cipher: cipher(t, 0)}, nil), path}
}

// cipher has a key of 32 equal bytes.
func cipher(t *testing.T, key byte) sealed.Cipher {
	t.Helper()
	c, err := sealed.New(bytes.Repeat([]byte{key}, 32), "alice")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (h tenant) save(t *testing.T, name string) {
	t.Helper()
	if _, err := h.skills.Save(t.Context(), skill.Draft{Name: name, Code: "1"}); err != nil {
		t.Fatal(err)
	}
}

func (h tenant) add(t *testing.T, test Test) int {
	t.Helper()
	n, err := h.Add(t.Context(), "x", test)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTestsAreStoredEncrypted(t *testing.T) {
	a, b := open(t), open(t)
	a.save(t, "x")
	a.save(t, "x_y")
	b.save(t, "x")
	other := recorded
	other.Code = "2"
	if first, second, again := a.add(t, recorded), a.add(t, other), a.add(t, recorded); first != 1 || second != 2 || again != 1 {
		t.Errorf("numbers %d, %d, %d", first, second, again)
	}
	all, err := a.List(t.Context(), "x")
	if err != nil || len(all) != 2 || time.Since(all[0].Recorded) > time.Minute {
		t.Fatalf("%+v, %v", all, err)
	}
	want := recorded
	want.Number, want.Recorded = 1, all[0].Recorded
	if diff := cmp.Diff(want, all[0]); diff != "" {
		t.Error(diff)
	}
	if all, err := b.List(t.Context(), "x"); err != nil || len(all) != 0 {
		t.Errorf("another tenant: %+v, %v", all, err)
	}
	for _, file := range []string{a.path, a.path + "-wal"} {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("secret answer")) {
			t.Errorf("%s contains the answer", file)
		}
	}
	if _, err := a.Add(t.Context(), "x_y", recorded); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Delete(t.Context(), "x"); n != 2 || err != nil {
		t.Error(n, err)
	}
	if all, err := a.List(t.Context(), "x_y"); len(all) != 1 || err != nil {
		t.Errorf("of another skill: %+v, %v", all, err)
	}
}

func TestLimitsOfTests(t *testing.T) {
	a := open(t)
	if _, err := a.Add(t.Context(), "x", recorded); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of a missing skill: %v", err)
	}
	a.save(t, "x")
	if _, err := a.Add(t.Context(), "x", Test{Code: strings.Repeat("x", maxBytes)}); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("a large test: %v", err)
	}
	for i := range maxTests {
		if n := a.add(t, Test{Code: fmt.Sprint(i)}); n != i+1 {
			t.Errorf("test %d has number %d", i, n)
		}
	}
	_, err := a.Add(t.Context(), "x", Test{Code: "one more"})
	if fault.KindOf(err) != fault.Exhausted || fault.Message(err) != `skill "x" has 20 tests, which is the maximum` {
		t.Error(err)
	}
	if n := a.add(t, Test{Code: "7"}); n != 8 {
		t.Errorf("a test that is replaced has number %d", n)
	}
}

func TestTestsWithAnotherKey(t *testing.T) {
	a := open(t)
	a.save(t, "x")
	a.add(t, recorded)
	a.table.Cipher = cipher(t, 1)
	_, err := a.List(t.Context(), "x")
	if fault.KindOf(err) != fault.Internal || fault.Message(err) != `test 1 of skill "x" is damaged or was encrypted with another key` {
		t.Error(err)
	}
	if n, err := a.Delete(t.Context(), "x"); n != 1 || err != nil {
		t.Error(n, err)
	}
}
