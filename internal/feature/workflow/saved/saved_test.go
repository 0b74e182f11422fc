package saved_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow/saved"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

func openDB(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"),
		[]store.Migration{{Number: 1, Name: "workflows", SQL: sealed.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// open returns a Store with a key of 32 equal bytes.
func open(t *testing.T, cfg saved.Config, key byte) *saved.Store {
	t.Helper()
	var err error
	if cfg.In.Cipher, err = sealed.New(bytes.Repeat([]byte{key}, 32), "alice"); err != nil {
		t.Fatal(err)
	}
	return saved.New(cfg)
}

func save(t *testing.T, s *saved.Store, name, source string) {
	t.Helper()
	if err := s.Save(t.Context(), name, []byte(source)); err != nil {
		t.Fatal(err)
	}
}

func TestSavedWorkflows(t *testing.T) {
	t.Parallel()
	changes := 0
	s := open(t, saved.Config{In: sealed.Store{DB: openDB(t)}, Changed: func() error { changes++; return nil }}, 1)
	save(t, s, "report", "first")
	save(t, s, "a", "other")
	save(t, s, "report", "second")
	if got, err := s.Find(t.Context(), "report"); string(got) != "second" || err != nil {
		t.Errorf("report is %q, %v", got, err)
	}
	all, err := s.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "a" || all[1].Name != "report" || all[1].Size != len("second") {
		t.Errorf("%+v %v", all, err)
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if changes != 4 {
		t.Errorf("%d changes were reported", changes)
	}
	err = s.Delete(t.Context(), "reprot")
	if fault.KindOf(err) != fault.NotFound || fault.Hint(err) != "there is report" || changes != 4 {
		t.Errorf("%v, %q, %d changes", err, fault.Hint(err), changes)
	}
	if _, err := s.Find(t.Context(), "a"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a deleted workflow: %v", err)
	}
}

func TestWorkflowsAreLimited(t *testing.T) {
	t.Parallel()
	s := open(t, saved.Config{In: sealed.Store{DB: openDB(t)}}, 1)
	large := strings.Repeat("x", saved.MaxStored/2)
	save(t, s, "a", large)
	save(t, s, "b", large)
	save(t, s, "b", large) // it replaces its own bytes
	if err := s.Save(t.Context(), "c", []byte("x")); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("a byte too many: %v", err)
	}
	s = open(t, saved.Config{In: sealed.Store{DB: openDB(t)}}, 1)
	for i := range saved.MaxNames {
		save(t, s, fmt.Sprint("w", i), "x")
	}
	save(t, s, "w0", "y")
	if err := s.Save(t.Context(), "more", nil); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("a workflow too many: %v", err)
	}
	full := fault.New(fault.Exhausted, "the disk is full")
	s = open(t, saved.Config{In: sealed.Store{DB: openDB(t)}, Room: func(int64) error { return full }}, 1)
	if err := s.Save(t.Context(), "a", nil); err != full {
		t.Errorf("without room: %v", err)
	}
}

// What a tenant stores is encrypted with its key, and bound to its row.
func TestWorkflowsAreEncrypted(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	s, foreign := open(t, saved.Config{In: sealed.Store{DB: db}}, 1), open(t, saved.Config{In: sealed.Store{DB: db}}, 2)
	save(t, s, "a", "secret text")
	save(t, s, "b", "other text")
	if got, err := foreign.Find(t.Context(), "a"); err == nil {
		t.Errorf("another key reads %q", got)
	}
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE sealed SET body = (SELECT body FROM sealed WHERE name = 'b') WHERE name = 'a'")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Find(t.Context(), "a"); err == nil {
		t.Errorf("the text of another workflow was accepted: %q", got)
	}
}
