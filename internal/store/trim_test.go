package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

func TestTrimmedDatabaseHasNoConnectionAndNoLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db := open(t, path, first)
	for i := range 3 {
		if err := insertDeferred(t, db, fmt.Sprint("note ", i)); err != nil {
			t.Fatal(err)
		}
		if err := store.Trim(db); err != nil || db.IdleConnections() != 0 {
			t.Fatalf("%d connections are left: %v", db.IdleConnections(), err)
		}
		if _, err := os.Stat(path + "-wal"); !os.IsNotExist(err) {
			t.Errorf("the log is left: %v", err)
		}
	}
	if got := value(t, db, "SELECT count(*) FROM notes"); got != "4" {
		t.Errorf("%s notes, want 4", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Trim(db); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// A database that is not used keeps its connection, and works as before.
func TestUnusedDatabaseHasNoStatements(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	for i := range 3 {
		if err := insertDeferred(t, db, fmt.Sprint("note ", i)); err != nil {
			t.Fatal(err)
		}
		if store.Shrink(t.Context(), db) || db.PreparedStatements() == 0 {
			t.Fatal("a database that is in use lost its statements")
		}
		db.Unused(time.Minute)
		if !store.Shrink(t.Context(), db) || db.PreparedStatements() != 0 || db.IdleConnections() != 1 {
			t.Fatalf("%d statements and %d connections are left, want 0 and 1", db.PreparedStatements(), db.IdleConnections())
		}
		if got, want := value(t, db, "SELECT count(*) FROM notes"), fmt.Sprint(i+2); got != want {
			t.Errorf("%s notes, want %s", got, want)
		}
	}
	err := db.View(t.Context(), func(*store.Tx) error { // has the connection
		if db.Unused(time.Minute); !store.Shrink(t.Context(), db) {
			t.Error("the next checkpoint would try again, though this transaction may have no end")
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if db.Unused(time.Minute); !store.Shrink(t.Context(), db) {
		t.Error("a closed database cannot be shrunk")
	}
}

func TestTrimDoesNothingWhileATransactionWrites(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	err := db.View(t.Context(), func(*store.Tx) error { // leaves an idle connection for the Update
		return db.Update(t.Context(), func(tx *store.Tx) error {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO notes (text) VALUES ('written')"); err != nil {
				return err
			}
			return store.Trim(db)
		})
	})
	if err != nil || db.IdleConnections() != 2 {
		t.Errorf("%d connections are left, want 2: %v", db.IdleConnections(), err)
	}
}

// The commits after a Trim are missed like those before it.
func TestLossOfALogAfterTrimIsFound(t *testing.T) {
	live := filepath.Join(t.TempDir(), "t.db")
	db := open(t, live, first)
	if err := store.Trim(db); err != nil {
		t.Fatal(err)
	}
	if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES ('lost')"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "t.db")
	for name, b := range contents(t, live) {
		if name == "-wal" {
			continue
		}
		if err := os.WriteFile(path+name, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Open(t.Context(), path, []store.Migration{first}); !strings.Contains(fault.Message(err), "deleted or cut") {
		t.Errorf("%v", err)
	}
}

func TestTrimDisturbsNoTransaction(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	var all sync.WaitGroup
	for w := range 3 {
		all.Go(func() {
			for i := range 30 {
				if err := insertDeferred(t, db, fmt.Sprintf("%d of %d", i, w)); err != nil {
					t.Error(err)
				}
				var notes int
				err := db.View(t.Context(), func(tx *store.Tx) error {
					return tx.QueryRowContext(t.Context(), "SELECT count(*) FROM notes").Scan(&notes)
				})
				if err != nil || notes < i+2 {
					t.Errorf("read %d notes after %d: %v", notes, i+2, err)
				}
			}
		})
	}
	all.Go(func() {
		for range 100 {
			if err := store.Trim(db); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	if got := value(t, db, "SELECT count(*) FROM notes"); got != "91" {
		t.Errorf("%s notes, want 91", got)
	}
}
