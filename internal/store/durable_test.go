package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// copyLive returns a copy of an open database, as a crash would leave it: its last
// commits are in the write-ahead log only. frames are the offsets of the log's frames.
func copyLive(t *testing.T) (path string, frames []int) {
	t.Helper()
	live := filepath.Join(t.TempDir(), "t.db")
	open(t, live, first).Close()
	db := open(t, live, first)
	for i := range 5 {
		if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES (?)", fmt.Sprint("note ", i)); err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(t.TempDir(), "t.db")
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(live + end)
		if err == nil {
			err = os.WriteFile(path+end, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		for at := 32; end != "" && at < len(b); at += 24 + 4096 {
			frames = append(frames, at)
		}
	}
	if len(frames) < 5 {
		t.Fatalf("the log has %d frames", len(frames))
	}
	return path, frames
}

// modify applies f to the content of a file from an offset.
func modify(t *testing.T, path string, at int, f func([]byte)) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		f(b[at:])
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func flip(b []byte) { b[0] ^= 1 }

func TestOpenRejectsDamagedLog(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, log string, frames []int){
		"header":       func(t *testing.T, log string, _ []int) { modify(t, log, 12, flip) },
		"first frame":  func(t *testing.T, log string, f []int) { modify(t, log, f[0]+100, flip) },
		"frame header": func(t *testing.T, log string, f []int) { modify(t, log, f[1], flip) },
		"salt":         func(t *testing.T, log string, f []int) { modify(t, log, f[1]+8, flip) },
		"zeros":        func(t *testing.T, log string, f []int) { modify(t, log, f[1], func(b []byte) { clear(b[:24+4096]) }) },
		"all zeros":    func(t *testing.T, log string, _ []int) { modify(t, log, 0, func(b []byte) { clear(b) }) },
	} {
		t.Run(name, func(t *testing.T) {
			path, frames := copyLive(t)
			damage(t, path+"-wal", frames)
			before, err := os.ReadFile(path + "-wal")
			if err != nil {
				t.Fatal(err)
			}
			_, err = store.Open(t.Context(), path, []store.Migration{first})
			if fault.KindOf(err) != fault.Internal || !strings.Contains(fault.Message(err), "write-ahead log of the database is damaged") ||
				fault.Hint(err) == "" {
				t.Errorf("Open: %v", err)
			}
			if after, err := os.ReadFile(path + "-wal"); err != nil || string(after) != string(before) {
				t.Errorf("the log was changed, %v", err)
			}
		})
	}
}

// A log that ends as after a crash is not damaged.
func TestOpenReadsLogAfterCrash(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, log string, frames []int)
		want   string // number of notes
	}{
		"complete":         {func(*testing.T, string, []int) {}, "6"},
		"short last frame": {func(t *testing.T, log string, f []int) { truncate(t, log, f[len(f)-1]+1000) }, "5"},
		"torn last frame":  {func(t *testing.T, log string, f []int) { modify(t, log, f[len(f)-1]+1000, flip) }, "5"},
		"header only":      {func(t *testing.T, log string, f []int) { truncate(t, log, 32) }, "1"},
		"empty":            {func(t *testing.T, log string, f []int) { truncate(t, log, 0) }, "1"},
		"older salt":       {func(t *testing.T, log string, f []int) { changeSalt(t, log, f[len(f)-1]) }, "5"},
	} {
		t.Run(name, func(t *testing.T) {
			path, frames := copyLive(t)
			c.damage(t, path+"-wal", frames)
			if got := value(t, open(t, path, first), "SELECT count(*) FROM notes"); got != c.want {
				t.Errorf("%s notes, want %s", got, c.want)
			}
		})
	}
}

func truncate(t *testing.T, path string, at int) {
	t.Helper()
	if err := os.Truncate(path, int64(at)); err != nil {
		t.Fatal(err)
	}
}

// changeSalt changes the salt of a frame, as if an earlier use of the file had written it.
func changeSalt(t *testing.T, log string, at int) { modify(t, log, at+8, flip) }

// The log contains frames of a rolled back transaction after committed ones.
func TestOpenIgnoresRolledBackFrames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db := open(t, path, first)
	errRollback := errors.New("roll back")
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
			INSERT INTO notes (text) SELECT hex(randomblob(1000)) FROM n`) // more than SQLite buffers in memory
		return errors.Join(err, errRollback)
	})
	if !errors.Is(err, errRollback) {
		t.Fatal(err)
	}
	if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES ('kept')"); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path + "-wal"); err != nil || fi.Size() < 1<<20 {
		t.Fatalf("the log contains no rolled back frames: %v %v", fi, err)
	}
	if got := value(t, open(t, path, first), "SELECT count(*) FROM notes"); got != "2" {
		t.Errorf("%s notes", got)
	}
}

// SQLite corrects the checksums of rewritten frames after it has written the commit frame.
// A crash in between leaves a commit that was never acknowledged.
func TestOpenIgnoresUnfinishedCommit(t *testing.T) {
	live := filepath.Join(t.TempDir(), "t.db")
	db := open(t, live, first)
	if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES ('kept')"); err != nil {
		t.Fatal(err)
	}
	start, err := os.ReadFile(live + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES (hex(randomblob(20000)))"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "t.db")
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(live + end)
		if err == nil {
			err = os.WriteFile(path+end, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	modify(t, path+"-wal", len(start)+24+100, flip) // the first frame of the last transaction
	if got := value(t, open(t, path, first), "SELECT count(*) FROM notes"); got != "2" {
		t.Errorf("%s notes, want 2", got)
	}
}

func TestCommitIsCheckpointed(t *testing.T) {
	longtest.SkipSlow(t)
	type update = func(*store.DB, context.Context, func(*store.Tx) error) error
	for name, write := range map[string]update{"Update": (*store.DB).Update, "UpdateDeferredSync": (*store.DB).UpdateDeferredSync} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "t.db")
			err := write(open(t, path, first), t.Context(), func(tx *store.Tx) error {
				_, err := tx.ExecContext(t.Context(), "INSERT INTO notes (text) VALUES ('sesame')")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
				fi, err := os.Stat(path + "-wal")
				if err == nil && fi.Size() == 0 {
					break
				}
				if err != nil || time.Now().After(end) {
					t.Fatalf("%v %v", fi, err)
				}
			}
			if b, err := os.ReadFile(path); err != nil || strings.Count(string(b), "sesame") != 1 {
				t.Errorf("the file contains the text %d times, %v", strings.Count(string(b), "sesame"), err)
			}
		})
	}
}

func TestUpdateRejectsDeletedDatabase(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"deleted":  os.Remove,
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "t.db")
			db := open(t, path, first)
			if err := errors.Join(db.Check(t.Context()), damage(path)); err != nil {
				t.Fatal(err)
			}
			later := db.UpdateDeferredSync(t.Context(), func(*store.Tx) error { return nil })
			for _, err := range []error{exec(t.Context(), db, "DELETE FROM notes"), later, db.Check(t.Context())} {
				if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "deleted or replaced") ||
					fault.Hint(err) == "" {
					t.Errorf("%v", err)
				}
			}
		})
	}
	path, _ := copyLive(t)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), path, []store.Migration{first}); fault.KindOf(err) != fault.Internal ||
		!strings.Contains(fault.Message(err), "is missing") {
		t.Errorf("Open with the log only: %v", err)
	}
}

func TestCheckReportsDamageAndNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db := open(t, path, first)
	if err := db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	open(t, path, first, second)
	if err := db.Check(t.Context()); !strings.Contains(fault.Message(err),
		"has schema version 2, but this version of Sandpiper supports versions up to 1") {
		t.Error(err)
	}
	path = filepath.Join(t.TempDir(), "t.db")
	db = open(t, path, first)
	for i := range 100 {
		if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES (?)", strings.Repeat(fmt.Sprint(i), 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	modify(t, path, 8*4096, func(b []byte) { copy(b, strings.Repeat("\xff", 4096)) })
	db = open(t, path, first) // Open does not read the damaged page
	for range 2 {
		if err := db.Check(t.Context()); fault.Message(err) != "the database is damaged" {
			t.Error(err)
		}
	}
}
