package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

var (
	first = store.Migration{Number: 1, Name: "notes", SQL: "CREATE TABLE notes (n INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT; " +
		"INSERT INTO notes VALUES (1, 'from migration 1')"}
	second = store.Migration{Number: 2, Name: "links", SQL: "CREATE TABLE links (note INTEGER NOT NULL REFERENCES notes (n)) STRICT"}
)

func open(t *testing.T, path string, steps ...store.Migration) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), path, steps)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(ctx context.Context, db *store.DB, query string, args ...any) error {
	return db.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}

func value(t *testing.T, db *store.DB, query string) string {
	t.Helper()
	var s string
	err := db.View(t.Context(), func(tx *store.Tx) error { return tx.QueryRowContext(t.Context(), query).Scan(&s) })
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return s
}

func TestConnectionSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%3F?#.db") // needs escaping in a URI
	db := open(t, path, first)
	for query, want := range map[string]string{
		"PRAGMA journal_mode":   "wal",
		"PRAGMA synchronous":    "2",
		"PRAGMA foreign_keys":   "1",
		"PRAGMA busy_timeout":   "5000",
		"PRAGMA user_version":   "1",
		"PRAGMA application_id": "1397770576",
	} {
		if got := value(t, db, query); got != want {
			t.Errorf("%s is %s, want %s", query, got, want)
		}
	}
	entries, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(entries) != 3 {
		t.Errorf("the directory contains %q, want the database, its -wal and its -shm file", entries)
	}
	for _, e := range entries {
		if fi, err := os.Stat(e); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", e, fi.Mode(), err)
		}
	}
}

func TestOpenRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	open(t, "t.db", first)
	if _, err := os.Stat("t.db-wal"); err != nil {
		t.Error(err)
	}
}

func TestMigrationsRunOnceInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	open(t, path, first).Close()
	db := open(t, path, first, second)
	if got := value(t, db, "SELECT count(*) FROM notes"); got != "1" {
		t.Errorf("%s notes after migration 1, want 1", got)
	}
	if err := exec(t.Context(), db, "INSERT INTO links VALUES (99)"); err == nil {
		t.Error("a link to a missing note was stored")
	}
}

func TestFailedMigrationIsRolledBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	broken := store.Migration{Number: 2, Name: "broken", SQL: "CREATE TABLE half (x) ; CREATE TABLE notes (again)"}
	open(t, path, first).Close()
	if _, err := store.Open(t.Context(), path, []store.Migration{first, broken}); err == nil {
		t.Fatal("a migration that creates a table twice was applied")
	}
	db := open(t, path, first)
	if got := value(t, db, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"); got != "0" {
		t.Error("the file contains a part of the failed migration")
	}
}

func TestOpenRejectsNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	open(t, path, first, second).Close()
	_, err := store.Open(t.Context(), path, []store.Migration{first})
	want := "the database has schema version 2, but this version of Sandpiper supports versions up to 1"
	if fault.Message(err) != want || fault.KindOf(err) != fault.Unavailable || fault.Hint(err) == "" {
		t.Errorf("got %v (%v), want %q with a hint", err, fault.KindOf(err), want)
	}
}

func TestOpenRejectsForeignDatabases(t *testing.T) {
	for pragma, want := range map[string]string{
		"PRAGMA application_id = 0": "the database was created by a pre-release version of Sandpiper (schema 1) and cannot " +
			"be opened",
		"PRAGMA application_id = 1397769298": "the database was created by a pre-release version of Sandpiper (schema 1) and cannot " +
			"be opened",
		"PRAGMA application_id = 16": "the database has SQLite application id 0x10 instead of 0x53504950 and cannot be opened",
	} {
		path := filepath.Join(t.TempDir(), "t.db")
		db := open(t, path, first)
		if err := exec(t.Context(), db, pragma); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{db.Check(t.Context()), reopen(t, path)} {
			if fault.Message(err) != want || fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Hint(err),
				"move the directory") {
				t.Errorf("%v, want %q with a hint", err, want)
			}
		}
	}
}

func reopen(t *testing.T, path string) error {
	_, err := store.Open(t.Context(), path, []store.Migration{first, second})
	return err
}

func TestOpenRejectsMisnumberedMigrations(t *testing.T) {
	if _, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), []store.Migration{second}); err == nil {
		t.Error("migrations that start with number 2 were accepted")
	}
}

func TestDatabasesAreSeparate(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, filepath.Join(dir, "a.db"), first), open(t, filepath.Join(dir, "b.db"), first)
	if err := exec(t.Context(), a, "INSERT INTO notes VALUES (2, 'of a')"); err != nil {
		t.Fatal(err)
	}
	if got := value(t, b, "SELECT count(*) FROM notes"); got != "1" {
		t.Errorf("b has %s notes, want 1", got)
	}
}

func TestUpdateRollsBackOnError(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	failure := fault.New(fault.Invalid, "no")
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "DELETE FROM notes"); err != nil {
			return err
		}
		return failure
	})
	if err != error(failure) {
		t.Errorf("got %v, want the unchanged error", err)
	}
	if got := value(t, db, "SELECT count(*) FROM notes"); got != "1" {
		t.Error("the deletion was not rolled back")
	}
}

func TestViewReadsSnapshot(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	err := db.View(t.Context(), func(tx *store.Tx) error {
		var before, after int
		if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM notes").Scan(&before); err != nil {
			return err
		}
		if err := exec(t.Context(), db, "INSERT INTO notes VALUES (2, 'late')"); err != nil {
			return fmt.Errorf("a writer waits for a reader: %w", err)
		}
		if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM notes").Scan(&after); err != nil {
			return err
		}
		if before != after {
			return fmt.Errorf("one View read %d notes, then %d", before, after)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestConcurrentOpenAndUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			db, err := store.Open(t.Context(), path, []store.Migration{first, second})
			if err != nil {
				t.Errorf("opening: %v", err)
				return
			}
			defer db.Close()
			for j := range 20 {
				if err := exec(t.Context(), db, "INSERT INTO notes VALUES (?, 'x')", 100*(i+1)+j); err != nil {
					t.Errorf("writing: %v", err)
				}
			}
		})
	}
	all.Wait()
	if got := value(t, open(t, path, first, second), "SELECT count(*) FROM notes"); got != "161" {
		t.Errorf("%s notes, want 161", got)
	}
}

func TestUpdateDeferredSyncIsVisibleAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db := open(t, path, first)
	update := func(name string, update func(context.Context, func(*store.Tx) error) error, sync string) {
		t.Helper()
		err := update(t.Context(), func(tx *store.Tx) error {
			var mode string
			if err := tx.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&mode); err != nil || mode != sync {
				t.Errorf("%s commits with synchronous %s, %v; want %s", name, mode, err, sync)
			}
			_, err := tx.ExecContext(t.Context(), "INSERT INTO notes (text) VALUES (?)", name)
			return err
		})
		if err != nil {
			t.Fatal(name, err)
		}
		if got := value(t, open(t, path, first), "SELECT text FROM notes ORDER BY n DESC LIMIT 1"); got != name {
			t.Errorf("after %s another connection reads %q", name, got)
		}
	}
	update("now", db.Update, "2")
	update("later", db.UpdateDeferredSync, "1")
	update("later again", db.UpdateDeferredSync, "1")
	update("now again", db.Update, "2")
}

// insertDeferred inserts a note by UpdateDeferredSync.
func insertDeferred(t *testing.T, db *store.DB, text string) error {
	return db.UpdateDeferredSync(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO notes (text) VALUES (?)", text)
		return err
	})
}

// replaceLog replaces the log by a directory, which cannot be opened for writing, so
// that a sync fails.
func replaceLog(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.Rename(path+"-wal", path+"-away"), os.Mkdir(path+"-wal", 0o700)); err != nil {
		t.Fatal(err)
	}
}

func TestCloseReportsFailedSync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db := open(t, path, first)
	if err := insertDeferred(t, db, "later"); err != nil {
		t.Fatal(err)
	}
	err := db.View(t.Context(), func(tx *store.Tx) error { // this read prevents a checkpoint
		var n int
		if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM notes").Scan(&n); err != nil {
			return err
		}
		value(t, db, "SELECT text FROM notes") // opens a second connection
		replaceLog(t, path)
		if err := insertDeferred(t, db, "newer"); err != nil {
			return err
		}
		return db.Close()
	})
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "the disk failed") {
		t.Errorf("closed with %v", err)
	}
}

func TestSyncReportsFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db := open(t, path, first)
	if err := errors.Join(insertDeferred(t, db, "later"), db.Sync()); err != nil {
		t.Fatal(err)
	}
	err := db.View(t.Context(), func(tx *store.Tx) error { // this read prevents a checkpoint
		var n int
		if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM notes").Scan(&n); err != nil {
			return err
		}
		value(t, db, "SELECT text FROM notes") // opens a second connection
		replaceLog(t, path)
		if err := insertDeferred(t, db, "newer"); err != nil {
			return err
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := db.Sync(); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "the disk failed") {
					t.Errorf("synced with %v", err)
				}
			})
		}
		all.Wait()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Sync(); err != nil { // by a checkpoint, which nothing prevents
		t.Error(err)
	}
}

// A log that cannot be synced is checkpointed into the database.
func TestFailedSyncIsFollowedByCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db := open(t, path, first)
	if err := insertDeferred(t, db, "later"); err != nil {
		t.Fatal(err)
	}
	replaceLog(t, path)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"-wal", "-shm"} {
		if err := os.RemoveAll(path + gone); err != nil {
			t.Fatal(err)
		}
	}
	if got := value(t, open(t, path, first), "SELECT text FROM notes ORDER BY n DESC"); got != "later" {
		t.Errorf("without the log the database contains %q", got)
	}
}

func TestUpdateReportsCancelledContext(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := exec(ctx, db, "DELETE FROM notes"); err != context.Canceled {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// The context is cancelled while SQLite begins or commits a transaction.
func TestCancelledUpdateWritesNothing(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	write := func(ctx context.Context, n int) error {
		return db.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
			_, err := tx.ExecContext(context.WithoutCancel(ctx), "INSERT INTO notes VALUES (?, 'x')", n)
			return err
		})
	}
	cancelled := 0
	for n := 10; n < 2000; n += 2 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(rand.IntN(120))*time.Microsecond, cancel)
		failed := write(ctx, n)
		cancel()
		if failed != nil && failed != context.Canceled {
			t.Fatal(failed)
		}
		want := "1"
		if failed != nil {
			want = "0"
			cancelled++
		}
		if err := write(t.Context(), n+1); err != nil {
			t.Fatalf("after a cancelled transaction: %v", err)
		}
		var got string
		if err := db.View(t.Context(), func(tx *store.Tx) error {
			return tx.QueryRowContext(t.Context(), "SELECT count(*) FROM notes WHERE n = ?", n).Scan(&got)
		}); err != nil || got != want {
			t.Fatalf("%v: %s rows, want %s; %v", failed, got, want, err)
		}
	}
	t.Logf("%d of 995 were cancelled", cancelled)
}

func TestOpenReportsDamage(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"not a database": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("not a database. ", 300)), 0o600)
		},
		"pages overwritten": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte(strings.Repeat("\xff", 8000)), 100)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "t.db")
			open(t, path, first).Close()
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			_, err := store.Open(t.Context(), path, []store.Migration{first, second})
			if fault.Message(err) != "the database is damaged" || fault.Hint(err) == "" {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOpenReportsMissingDirectory(t *testing.T) {
	_, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "none", "t.db"), []store.Migration{first})
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v", err)
	}
}

func BenchmarkOpenExisting(b *testing.B) {
	path := filepath.Join(b.TempDir(), "t.db")
	for b.Loop() {
		db, err := store.Open(b.Context(), path, []store.Migration{first, second})
		if err != nil {
			b.Fatal(err)
		}
		db.Close()
	}
}

// BenchmarkUpdate measures write transactions of one caller and of 16 at a time.
func BenchmarkUpdate(b *testing.B) {
	for _, callers := range []int{1, 16} {
		for _, name := range []string{"synced", "deferred", "deferred, then synced"} {
			b.Run(fmt.Sprintf("%s/callers=%d", name, callers), func(b *testing.B) {
				db, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "t.db"), []store.Migration{first})
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				update := db.Update
				switch name {
				case "deferred":
					update = db.UpdateDeferredSync
				case "deferred, then synced":
					update = func(ctx context.Context, f func(*store.Tx) error) error {
						return errors.Join(db.UpdateDeferredSync(ctx, f), db.Sync())
					}
				}
				b.ResetTimer()
				var left atomic.Int64
				left.Store(int64(b.N))
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for left.Add(-1) >= 0 {
							if err := update(b.Context(), func(tx *store.Tx) error {
								_, err := tx.ExecContext(b.Context(), "UPDATE notes SET text = hex(randomblob(8)) WHERE n = 1")
								return err
							}); err != nil {
								b.Error(err)
							}
						}
					})
				}
				all.Wait()
			})
		}
	}
}

func TestSurplusConnectionsAreClosed(t *testing.T) {
	longtest.SkipSlow(t)
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	err := db.View(t.Context(), func(*store.Tx) error {
		return db.View(t.Context(), func(*store.Tx) error { return insertDeferred(t, db, "text") })
	})
	if got := db.IdleConnections(); err != nil || got != 3 {
		t.Fatalf("%d connections after three concurrent transactions, %v", got, err)
	}
	for end := time.Now().Add(2 * time.Minute); db.IdleConnections() != 1; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections remain", db.IdleConnections())
		}
	}
	if err := insertDeferred(t, db, "after"); err != nil {
		t.Error(err)
	}
}

func TestCancelledUpdateDoesNotWaitForAnother(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	errStop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := db.Update(t.Context(), func(*store.Tx) error {
		cancelled := make(chan error)
		go func() { cancelled <- exec(ctx, db, "INSERT INTO notes (text) VALUES ('never')") }()
		cancel(errStop)
		return <-cancelled
	})
	if !errors.Is(err, errStop) {
		t.Errorf("the waiting update returned %v", err)
	}
	if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES ('later')"); err != nil {
		t.Error(err)
	}
}

func TestCompactRemovesDeletedData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db, second := open(t, path, first), open(t, path, first)
	for i := range 300 {
		if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES (?)",
			fmt.Sprintf("sesame %d %s", i, strings.Repeat("x", i*20))); err != nil {
			t.Fatal(err)
		}
	}
	if err := exec(t.Context(), second, "DELETE FROM notes WHERE text LIKE 'sesame%'"); err != nil {
		t.Fatal(err)
	}
	containsText := func() (found bool) {
		for _, name := range []string{path, path + "-wal"} {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(b), "sesame")
		}
		return found
	}
	if !containsText() {
		t.Fatal("the files do not contain the deleted text before Compact")
	}
	if err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if containsText() {
		t.Error("the files still contain the deleted text")
	}
	if got := value(t, second, "SELECT count(*) FROM notes"); got != "1" {
		t.Errorf("%s notes, want 1", got)
	}
	other := open(t, filepath.Join(t.TempDir(), "other.db"), first)
	other.Close()
	if err := other.Compact(t.Context()); err == nil {
		t.Error("a closed database was compacted")
	}
}
