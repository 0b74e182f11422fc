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
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

func openDB(t *testing.T) (*store.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.db")
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "recent", SQL: sealed.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, path
}

// in returns where a tenant stores with a key.
func in(t *testing.T, db *store.DB, key byte) sealed.Store {
	t.Helper()
	cipher, err := sealed.New(bytes.Repeat([]byte{key}, 32), "alice")
	if err != nil {
		t.Fatal(err)
	}
	return sealed.Store{DB: db, Cipher: cipher}
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
	a, b := recent.New(recent.Config{In: in(t, db, 1)}), recent.New(recent.Config{In: in(t, other, 1)})
	secret := "print('the secret of Ada')"
	a.Add(recent.Code{Execution: "exec_a", Session: "s", Code: secret})
	if got := list(t, a); got != "exec_a" {
		t.Fatalf("stored %q", got)
	}
	again := recent.New(recent.Config{In: in(t, db, 1)}) // another process
	if c, err := again.Find(t.Context(), "exec_a"); err != nil || c.Code != secret || c.Session != "s" ||
		time.Since(c.Ended) > time.Minute {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := b.Find(t.Context(), "exec_a"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant: %v", err)
	}
	if _, err := recent.New(recent.Config{In: in(t, db, 0)}).Find(t.Context(), "exec_a"); fault.KindOf(err) != fault.Internal {
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
	cfg := recent.Config{In: in(t, db, 1), Number: 3, MaxBytes: 4000, Now: func() time.Time { return now }}
	s := recent.New(cfg)
	for i := range 5 {
		s.Add(recent.Code{Execution: fmt.Sprint("exec_", i), Code: "1"})
	}
	if got := list(t, s); got != "exec_4 exec_3 exec_2" {
		t.Errorf("of five, %q are stored", got)
	}
	s = recent.New(cfg)
	s.Add(recent.Code{Execution: "long", Code: strings.Repeat("x", 3500)})
	if got := list(t, s); got != "long exec_4 exec_3" {
		t.Errorf("after long code: %q", got)
	}
	s = recent.New(cfg)
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
	none := recent.New(recent.Config{In: in(t, db, 1), Keep: -1})
	none.Add(recent.Code{Execution: "x", Code: "1"})
	if got := list(t, none); got != "" {
		t.Errorf("stored %q although none is kept", got)
	}
}
