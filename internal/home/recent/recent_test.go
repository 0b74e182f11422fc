package recent_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/recent"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

func openDB(t *testing.T) (*store.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.db")
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "recent", SQL: recent.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, path
}

func open(t *testing.T, cfg recent.Config) *recent.Store {
	t.Helper()
	if cfg.Key == nil {
		cfg.Key = bytes.Repeat([]byte{1}, 32)
	}
	s, err := recent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// list returns the executions whose code is stored, once s is closed.
func list(t *testing.T, s *recent.Store) string {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range all {
		ids = append(ids, c.Execution)
	}
	return strings.Join(ids, " ")
}

func TestCodeIsStoredEncrypted(t *testing.T) {
	db, path := openDB(t)
	other, _ := openDB(t)
	a, b := open(t, recent.Config{DB: db}), open(t, recent.Config{DB: other})
	secret := "print('the secret of Ada')"
	a.Add(recent.Code{Execution: "exec_a", Session: "s", Code: secret})
	if got := list(t, a); got != "exec_a" {
		t.Fatalf("stored %q", got)
	}
	again := open(t, recent.Config{DB: db}) // another process
	if c, err := again.Find(t.Context(), "exec_a"); err != nil || c.Code != secret || c.Session != "s" || time.Since(c.Ended) > time.Minute {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := b.Find(t.Context(), "exec_a"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant: %v", err)
	}
	if _, err := open(t, recent.Config{DB: db, Key: make([]byte, 32)}).Find(t.Context(), "exec_a"); fault.KindOf(err) != fault.Internal {
		t.Errorf("another key: %v", err)
	}
	for _, file := range []string{path, path + "-wal"} {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte("secret of Ada")) {
			t.Errorf("%s contains the code", file)
		}
	}
}

func TestLimits(t *testing.T) {
	db, _ := openDB(t)
	now := time.Now()
	cfg := recent.Config{DB: db, Number: 3, MaxBytes: 4000, Now: func() time.Time { return now }}
	s := open(t, cfg)
	for i := range 5 {
		s.Add(recent.Code{Execution: fmt.Sprint("exec_", i), Code: "1"})
	}
	if got := list(t, s); got != "exec_4 exec_3 exec_2" {
		t.Errorf("of five, %q are stored", got)
	}
	s = open(t, cfg)
	s.Add(recent.Code{Execution: "long", Code: strings.Repeat("x", 3500)})
	if got := list(t, s); got != "long exec_4 exec_3" {
		t.Errorf("after long code: %q", got)
	}
	s = open(t, cfg)
	s.Add(recent.Code{Execution: "longer", Code: strings.Repeat("x", 3900)})
	if got := list(t, s); got != "longer" {
		t.Errorf("after longer code: %q", got)
	}
	now = now.Add(25 * time.Hour)
	if got := list(t, s); got != "" {
		t.Errorf("after a day: %q", got)
	}
	if _, err := s.Find(t.Context(), "longer"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("after a day: %v", err)
	}
	if err := s.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-25 * time.Hour)
	if got := list(t, s); got != "" {
		t.Errorf("not deleted: %q", got)
	}
	none := open(t, recent.Config{DB: db, Keep: -1})
	none.Add(recent.Code{Execution: "x", Code: "1"})
	if got := list(t, none); got != "" {
		t.Errorf("stored %q although none is kept", got)
	}
}

func TestRekey(t *testing.T) {
	db, _ := openDB(t)
	from, to := open(t, recent.Config{DB: db}), open(t, recent.Config{DB: db, Key: make([]byte, 32)})
	from.Add(recent.Code{Execution: "a", Code: "1"})
	from.Add(recent.Code{Execution: "b", Code: "2"})
	if got := list(t, from); got != "b a" {
		t.Fatal(got)
	}
	if damaged, err := from.Rekey(t.Context(), to); damaged != 0 || err != nil {
		t.Error(damaged, err)
	}
	if c, err := to.Find(t.Context(), "a"); err != nil || c.Code != "1" {
		t.Errorf("%+v, %v", c, err)
	}
	if damaged, err := from.Rekey(t.Context(), to); damaged != 2 || err != nil {
		t.Errorf("with the wrong key: %d damaged, %v", damaged, err)
	}
}
