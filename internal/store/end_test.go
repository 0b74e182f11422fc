package store_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// crashed returns a database as a crash of its process would leave it: five notes are in its log
// only. frames are the offsets of the log's frames.
func crashed(t *testing.T) (path string, frames []int) {
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
	for name, b := range contents(t, live) {
		if err := os.WriteFile(path+name, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for at := 32; at < len(contents(t, path)["-wal"]); at += 24 + 4096 {
		frames = append(frames, at)
	}
	if len(frames) < 5 {
		t.Fatalf("the log has %d frames", len(frames))
	}
	return path, frames
}

// contents returns the files of a database but the index of its log.
func contents(t *testing.T, path string) map[string]string {
	t.Helper()
	all, err := filepath.Glob(path + "*")
	files := map[string]string{}
	for _, name := range all {
		b, readErr := os.ReadFile(name)
		files[strings.TrimPrefix(name, path)], err = string(b), errors.Join(err, readErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "-shm")
	return files
}

func TestOpenRejectsLostLog(t *testing.T) {
	loss := map[string]func(t *testing.T, log string, frames []int){
		"deleted":                  func(t *testing.T, log string, _ []int) { removeFile(t, log) },
		"emptied":                  func(t *testing.T, log string, _ []int) { truncate(t, log, 0) },
		"header only":              func(t *testing.T, log string, _ []int) { truncate(t, log, 32) },
		"inside of the last frame": func(t *testing.T, log string, f []int) { truncate(t, log, f[len(f)-1]+1000) },
		"last frame damaged":       func(t *testing.T, log string, f []int) { modify(t, log, f[len(f)-1]+1000, flip) },
	}
	for i := range 10 {
		loss[fmt.Sprint("before frame ", i)] = func(t *testing.T, log string, f []int) { truncate(t, log, f[i]) }
	}
	for name, lose := range loss {
		t.Run(name, func(t *testing.T) {
			path, frames := crashed(t)
			complete := contents(t, path)["-wal"]
			lose(t, path+"-wal", frames)
			before := contents(t, path)
			_, err := store.Open(t.Context(), path, []store.Migration{first})
			copied := store.Snapshot(t.Context(), path, filepath.Join(t.TempDir(), "copy.db"))
			for _, err := range []error{err, copied} {
				if fault.KindOf(err) != fault.Internal || !strings.Contains(fault.Message(err), "deleted or cut") ||
					!strings.Contains(fault.Hint(err), "t.db.end") {
					t.Errorf("%v; %s", err, fault.Hint(err))
				}
			}
			after := contents(t, path)
			if after[""] != before[""] || after["-wal"] != before["-wal"] || after[".end"] != before[".end"] {
				t.Error("the refused files were changed")
			}
			if err := os.WriteFile(path+"-wal", []byte(complete), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := value(t, open(t, path, first), "SELECT count(*) FROM notes"); got != "6" {
				t.Errorf("%s notes with the complete log, want 6", got)
			}
		})
	}
}

func removeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestLostLogIsAcceptedWithoutItsEnd(t *testing.T) {
	path, frames := crashed(t)
	truncate(t, path+"-wal", frames[4])
	removeFile(t, path+".end")
	if got := value(t, open(t, path, first), "SELECT count(*) FROM notes"); got != "2" {
		t.Errorf("%s notes, want 2", got)
	}
}

// Whoever moved the log into the database, nothing is lost.
func TestOpenAcceptsCheckpointedLog(t *testing.T) {
	for name, checkpoint := range map[string]func(t *testing.T, path string){
		"closed by Sandpiper": func(t *testing.T, path string) { open(t, path, first).Close() },
		"closed by a program that does not know the end": func(t *testing.T, path string) {
			end := contents(t, path)[".end"]
			db := open(t, path, first)
			if err := errors.Join(exec(t.Context(), db, "DELETE FROM notes WHERE n > 6"), db.Close(),
				os.WriteFile(path+".end", []byte(end), 0o600)); err != nil {
				t.Fatal(err)
			}
		},
		"a copy of the database": func(t *testing.T, path string) {
			to := filepath.Join(t.TempDir(), "copy.db")
			// Snapshot has closed the database
			if err := errors.Join(store.Snapshot(t.Context(), path, to), os.Rename(to, path)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := crashed(t)
			checkpoint(t, path)
			if _, err := os.Stat(path + "-wal"); err == nil {
				t.Fatal("the log was not deleted")
			}
			if got := value(t, open(t, path, first), "SELECT count(*) FROM notes"); got != "6" {
				t.Errorf("%s notes, want 6", got)
			}
		})
	}
}

// An older copy of a database that was closed is not refused: its log was complete.
func TestOpenAcceptsOlderCopyOfClosedDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	open(t, path, first).Close()
	old := contents(t, path)[""]
	db := open(t, path, first)
	if err := errors.Join(exec(t.Context(), db, "DELETE FROM notes"), db.Close(), os.WriteFile(path, []byte(old), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := value(t, open(t, path, first), "SELECT count(*) FROM notes"); got != "1" {
		t.Errorf("%s notes, want 1", got)
	}
}

// A loss of power may take the commits of the last moments that nobody waited for, but no others.
func TestOpenAfterLossOfPower(t *testing.T) {
	path, frames := crashed(t)
	end := contents(t, path)[".end"]
	db := open(t, path, first)
	if err := insertDeferred(t, db, "not synced"); err != nil {
		t.Fatal(err)
	}
	later := contents(t, path)
	restore := func(end string, cut int) error {
		at := filepath.Join(t.TempDir(), "t.db")
		later[".end"] = end
		for name, b := range later {
			if err := os.WriteFile(at+name, []byte(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		truncate(t, at+"-wal", cut)
		db, err := store.Open(t.Context(), at, []store.Migration{first})
		if err == nil {
			err = db.Close()
		}
		return err
	}
	last := frames[len(frames)-1]
	if err := restore(end, last+24+4096); err != nil {
		t.Errorf("without the commit that was not synced: %v", err)
	}
	if err := db.Sync(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"synced": restore(contents(t, path)[".end"], last+24+4096), "synced at once": restore(end, last),
	} {
		if fault.KindOf(err) != fault.Internal || !strings.Contains(fault.Message(err), "deleted or cut") {
			t.Errorf("without a commit that was %s: %v", name, err)
		}
	}
}

// A transaction without changes writes nothing, and one that is rolled back counts for nothing.
func TestUnchangedDatabaseIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	db := open(t, path, first)
	if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES ('one')"); err != nil {
		t.Fatal(err)
	}
	before := contents(t, path)
	errRollback := errors.New("roll back")
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO notes (text) VALUES ('two')")
		return errors.Join(err, errRollback)
	})
	if !errors.Is(err, errRollback) {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		var n int
		_, err := tx.ExecContext(t.Context(), "DELETE FROM notes WHERE n > 100")
		return errors.Join(err, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM notes").Scan(&n))
	})
	if err != nil {
		t.Fatal(err)
	}
	if after := contents(t, path); after["-wal"] != before["-wal"] || after[".end"] != before[".end"] {
		t.Error("files were written")
	}
}

// A database of somebody else may contain any number of the last commit, or none.
func TestNumberOfTheLastCommitIsNotTrusted(t *testing.T) {
	for name, change := range map[string]string{
		"largest": "UPDATE commits SET n = 9223372036854775807", "smallest": "UPDATE commits SET n = -9223372036854775808",
		"none": "DELETE FROM commits", "several": "INSERT INTO commits VALUES (5), (9223372036854775806)", "no table": "DROP TABLE commits",
	} {
		t.Run(name, func(t *testing.T) {
			from := filepath.Join(t.TempDir(), "t.db")
			db := open(t, from, first)
			if err := errors.Join(exec(t.Context(), db, "DELETE FROM notes"), db.Close(), os.Remove(from+".end")); err != nil {
				t.Fatal(err)
			}
			foreign, err := sql.Open("sqlite", from)
			if err != nil {
				t.Fatal(err)
			}
			_, err = foreign.Exec(change)
			if err := errors.Join(err, foreign.Close()); err != nil {
				t.Fatal(err)
			}
			db = open(t, from, first)
			for i := range 3 {
				if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES (?)", fmt.Sprint("note ", i)); err != nil {
					t.Fatal(err)
				}
				if err := insertDeferred(t, db, "deferred"); err != nil {
					t.Fatal(err)
				}
				if err := db.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(t.TempDir(), "t.db") // as a crash leaves it
			for name, b := range contents(t, from) {
				if err := os.WriteFile(path+name, []byte(b), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := value(t, open(t, path, first), "SELECT count(*) FROM notes"); got != "6" {
				t.Errorf("%s notes, want 6", got)
			}
			for name, b := range contents(t, from) {
				if err := os.WriteFile(path+name, []byte(b), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			truncate(t, path+"-wal", 32)
			if _, err := store.Open(t.Context(), path, []store.Migration{first}); err == nil {
				t.Error("the loss of the log was not found")
			}
		})
	}
}

const writeUntilKilled = "SANDPIPER_TEST_WRITE_UNTIL_KILLED"

// Killed processes, of which several may use the database at the same time, leave no database that is
// refused, and lose nothing that they acknowledged.
func TestKilledWritersLoseNothing(t *testing.T) {
	if path := os.Getenv(writeUntilKilled); path != "" {
		writeNotes(t, path)
	}
	path := filepath.Join(t.TempDir(), "t.db")
	var acknowledged []string
	rounds := longtest.Rows([]int{12, 3}, 1)
	for range rounds[0] {
		ctx, kill := context.WithCancel(t.Context())
		var outputs [2]io.Reader
		var children [2]*osexec.Cmd
		for i := range children {
			c := osexec.CommandContext(ctx, os.Args[0], "-test.run=^TestKilledWritersLoseNothing$")
			c.Env = append(os.Environ(), writeUntilKilled+"="+path)
			out, err := c.StdoutPipe()
			if err := errors.Join(err, c.Start()); err != nil {
				t.Fatal(err)
			}
			children[i], outputs[i] = c, out
		}
		wanted := 20 + rand.IntN(400)
		lines := make(chan []string)
		for i, c := range children {
			go func() {
				var got []string
				for s := bufio.NewScanner(outputs[i]); s.Scan(); {
					if got = append(got, s.Text()); len(got) == wanted {
						kill()
					}
				}
				_ = c.Wait()
				lines <- got
			}()
		}
		acknowledged = append(append(acknowledged, <-lines...), <-lines...)
		kill()
		db := open(t, path, first)
		for _, text := range acknowledged {
			var n int
			err := db.View(t.Context(), func(tx *store.Tx) error {
				return tx.QueryRowContext(t.Context(), "SELECT count(*) FROM notes WHERE text = ?", text).Scan(&n)
			})
			if err != nil || n != 1 {
				t.Fatalf("%q is there %d times, %v", text, n, err)
			}
		}
		if rand.IntN(2) == 0 { // otherwise the next processes find it open
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d acknowledged notes", len(acknowledged))
}

// writeNotes prints each note that it has committed.
func writeNotes(t *testing.T, path string) {
	for i := 0; ; {
		db, err := store.Open(t.Context(), path, []store.Migration{first})
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + rand.IntN(100) {
			text := fmt.Sprint(os.Getpid(), " ", time.Now().UnixNano(), " ", i)
			if i++; rand.IntN(4) == 0 {
				err = exec(t.Context(), db, "INSERT INTO notes (text) VALUES (?)", text)
			} else {
				err = insertDeferred(t, db, text)
			}
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(text)
			if rand.IntN(10) == 0 {
				if err := store.Trim(db); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
