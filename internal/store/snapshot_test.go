package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Rows that are inserted in one transaction are in a snapshot together or not at all.
func TestSnapshotIsOneMoment(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "a.db")
	steps := []store.Migration{{Number: 1, Name: "t", SQL: "CREATE TABLE t (x INTEGER, y TEXT); CREATE INDEX i ON t (x)"}}
	db := open(t, from, steps...)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	defer writing.Wait()
	defer close(stop)
	writing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			err := db.Update(t.Context(), func(tx *store.Tx) error {
				_, err1 := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (1, hex(randomblob(2000)))")
				_, err2 := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (-1, hex(randomblob(2000)))")
				return errors.Join(err1, err2)
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for n := range 10 {
		to := filepath.Join(dir, string(rune('b'+n))+".db")
		if err := store.Snapshot(t.Context(), from, to); err != nil {
			t.Fatal(err)
		}
		if err := store.CheckIntegrity(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		c := open(t, to, steps...)
		if got := value(t, c, "SELECT coalesce(sum(x), 0) FROM t"); got != "0" {
			t.Errorf("the sum of the copy is %s", got)
		}
		if wal, err := c.IsWAL(t.Context()); err != nil || !wal {
			t.Errorf("the copy has no write-ahead log, %v", err)
		}
	}
}

func TestSnapshotRefusesMissingAndDamagedDatabases(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")
	if err := store.Snapshot(t.Context(), from, to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no database: %v", err)
	}
	if _, err := os.Lstat(from); err == nil {
		t.Error("it was created")
	}
	if err := os.WriteFile(from, []byte("no database, but a text that is longer than a header of one hundred bytes, and so it cannot be "+
		"taken for a new file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Snapshot(t.Context(), from, to); fault.KindOf(err) != fault.Internal {
		t.Errorf("a text: %v", err)
	}
	if err := store.CheckIntegrity(t.Context(), from); fault.KindOf(err) != fault.Internal {
		t.Errorf("a text: %v", err)
	}
}
