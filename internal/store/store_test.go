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
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

var (
	first  = store.Migration{Number: 1, Name: "notes", SQL: "CREATE TABLE notes (n INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT; INSERT INTO notes VALUES (1, 'made by step 1')"}
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

func TestConnectionsHaveTheSettingsThatKeepPromises(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%3F?#.db") // a name that is no plain URI
	db := open(t, path, first)
	for query, want := range map[string]string{
		"PRAGMA journal_mode":   "wal",
		"PRAGMA synchronous":    "2",
		"PRAGMA foreign_keys":   "1",
		"PRAGMA busy_timeout":   "5000",
		"PRAGMA user_version":   "1",
		"PRAGMA application_id": "1397769298",
	} {
		if got := value(t, db, query); got != want {
			t.Errorf("%s is %s, want %s", query, got, want)
		}
	}
	entries, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(entries) != 3 {
		t.Errorf("the directory holds %q, want the database with its log and index", entries)
	}
	for _, e := range entries {
		if fi, err := os.Stat(e); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", e, fi.Mode(), err)
		}
	}
}

func TestARelativePathIsOfTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	open(t, "t.db", first)
	if _, err := os.Stat("t.db-wal"); err != nil {
		t.Error(err)
	}
}

func TestMigrationsAreTakenOnceAndInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	open(t, path, first).Close()
	db := open(t, path, first, second)
	if got := value(t, db, "SELECT count(*) FROM notes"); got != "1" {
		t.Errorf("step 1 left %s notes, want the one of its only run", got)
	}
	if err := exec(t.Context(), db, "INSERT INTO links VALUES (99)"); err == nil {
		t.Error("a link to a note that is not there was stored")
	}
}

func TestAFailedMigrationLeavesTheFileAsItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	broken := store.Migration{Number: 2, Name: "broken", SQL: "CREATE TABLE half (x) ; CREATE TABLE notes (again)"}
	open(t, path, first).Close()
	if _, err := store.Open(t.Context(), path, []store.Migration{first, broken}); err == nil {
		t.Fatal("a step that makes a table twice was taken")
	}
	db := open(t, path, first)
	if got := value(t, db, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"); got != "0" {
		t.Error("half of a failed step is in the file")
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	open(t, path, first, second).Close()
	_, err := store.Open(t.Context(), path, []store.Migration{first})
	want := "the database has schema 2, this Sandpiper knows schemas up to 1"
	if fault.Message(err) != want || fault.KindOf(err) != fault.Unavailable || fault.Hint(err) == "" {
		t.Errorf("got %v (%v), want %q with a hint", err, fault.KindOf(err), want)
	}
}

func TestOpenRejectsForeignDatabases(t *testing.T) {
	for pragma, want := range map[string]string{
		"PRAGMA application_id = 0":  "the database was created by a pre-release version of Sandpiper (schema 1) and cannot be opened",
		"PRAGMA application_id = 16": "the database has SQLite application id 0x10 instead of 0x53504452 and cannot be opened",
	} {
		path := filepath.Join(t.TempDir(), "t.db")
		db := open(t, path, first)
		if err := exec(t.Context(), db, pragma); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{db.Check(t.Context()), reopen(t, path)} {
			if fault.Message(err) != want || fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Hint(err), "move the directory") {
				t.Errorf("%v, want %q with a hint", err, want)
			}
		}
	}
}

func reopen(t *testing.T, path string) error {
	_, err := store.Open(t.Context(), path, []store.Migration{first, second})
	return err
}

func TestMisnumberedMigrationsAreRefused(t *testing.T) {
	if _, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), []store.Migration{second}); err == nil {
		t.Error("a list that begins with step 2 was accepted")
	}
}

func TestTwoFilesShareNothing(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, filepath.Join(dir, "a.db"), first), open(t, filepath.Join(dir, "b.db"), first)
	if err := exec(t.Context(), a, "INSERT INTO notes VALUES (2, 'of a')"); err != nil {
		t.Fatal(err)
	}
	if got := value(t, b, "SELECT count(*) FROM notes"); got != "1" {
		t.Errorf("b has %s notes, a's among them", got)
	}
}

func TestAnErrorUndoesAnUpdate(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	refusal := fault.New(fault.Invalid, "no")
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "DELETE FROM notes"); err != nil {
			return err
		}
		return refusal
	})
	if err != error(refusal) {
		t.Errorf("got %v, want the error as it was", err)
	}
	if got := value(t, db, "SELECT count(*) FROM notes"); got != "1" {
		t.Error("the undone deletion took place")
	}
}

func TestAViewCannotSeeWhatIsWrittenMeanwhile(t *testing.T) {
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
			return fmt.Errorf("one view saw %d notes, then %d", before, after)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestManyOpenAndWriteOneFileAtOnce(t *testing.T) {
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
		t.Errorf("%s notes are there, want 161", got)
	}
}

func TestWhatIsWrittenForLaterIsSeenAtOnce(t *testing.T) {
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
			t.Errorf("after %s another connection sees %q", name, got)
		}
	}
	update("now", db.Update, "2")
	update("later", db.UpdateLater, "1")
	update("later again", db.UpdateLater, "1")
	update("now again", db.Update, "2")
}

// later writes a note that a power loss may take for a moment.
func later(t *testing.T, db *store.DB, text string) error {
	return db.UpdateLater(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO notes (text) VALUES (?)", text)
		return err
	})
}

// replaceLog makes the log impossible to sync: a directory cannot be opened for
// writing.
func replaceLog(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.Rename(path+"-wal", path+"-away"), os.Mkdir(path+"-wal", 0o700)); err != nil {
		t.Fatal(err)
	}
}

func TestADiskThatFailsLaterIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db := open(t, path, first)
	if err := later(t, db, "later"); err != nil {
		t.Fatal(err)
	}
	err := db.View(t.Context(), func(tx *store.Tx) error { // the log cannot be moved while this reads
		var n int
		if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM notes").Scan(&n); err != nil {
			return err
		}
		value(t, db, "SELECT text FROM notes") // so that there is another connection
		replaceLog(t, path)
		if err := later(t, db, "newer"); err != nil {
			return err
		}
		return db.Close()
	})
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "the disk failed") {
		t.Errorf("closed with %v", err)
	}
}

// A log that cannot be synced is moved into the database, which takes writes as
// before.
func TestADatabaseRecoversFromASyncThatFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db := open(t, path, first)
	if err := later(t, db, "later"); err != nil {
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
		t.Errorf("without the log the database has %q", got)
	}
}

func TestAnEndedContextIsReported(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := exec(ctx, db, "DELETE FROM notes"); err != context.Canceled {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// A context may end while SQLite begins or commits a transaction.
func TestACancelledTransactionLeavesNothing(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	write := func(ctx context.Context, n int) error {
		return db.UpdateLater(ctx, func(tx *store.Tx) error {
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
			t.Fatalf("%v: %s rows were written, want %s; %v", failed, got, want, err)
		}
	}
	t.Logf("%d of 995 were cancelled", cancelled)
}

func TestADamagedFileIsCalledDamaged(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"no database at all": func(path string) error {
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

func TestAMissingDirectoryIsAFault(t *testing.T) {
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

func BenchmarkUpdate(b *testing.B) {
	db, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "t.db"), []store.Migration{first})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	for b.Loop() {
		if err := exec(b.Context(), db, "UPDATE notes SET text = text || 'x' WHERE n = 1"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestCompactLeavesNothingThatWasDeleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db, beside := open(t, path, first), open(t, path, first)
	for i := range 300 {
		if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES (?)", fmt.Sprintf("sesame %d %s", i, strings.Repeat("x", i*20))); err != nil {
			t.Fatal(err)
		}
	}
	if err := exec(t.Context(), beside, "DELETE FROM notes WHERE text LIKE 'sesame%'"); err != nil {
		t.Fatal(err)
	}
	holds := func() (found bool) {
		for _, name := range []string{path, path + "-wal"} {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(b), "sesame")
		}
		return found
	}
	if !holds() {
		t.Fatal("the test does not find what is there")
	}
	if err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if holds() {
		t.Error("what was deleted is still in the files")
	}
	if got := value(t, beside, "SELECT count(*) FROM notes"); got != "1" {
		t.Errorf("%s notes are left", got)
	}
	other := open(t, filepath.Join(t.TempDir(), "other.db"), first)
	other.Close()
	if err := other.Compact(t.Context()); err == nil {
		t.Error("a closed database was written anew")
	}
}
