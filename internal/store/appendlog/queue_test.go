package appendlog_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/appendlog"
)

// newQueue returns a Queue that stores payloads in the table frames.
func newQueue(t *testing.T, dir string) (*appendlog.Queue, *store.DB) {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(dir, "t.db"),
		[]store.Migration{{Number: 1, Name: "frames", SQL: "CREATE TABLE logs " + appendlog.Columns +
			"; CREATE TABLE frames (payload BLOB) STRICT; CREATE INDEX of_frames ON frames (payload);"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return queueOf(db), db
}

func queueOf(db *store.DB) *appendlog.Queue {
	return appendlog.NewQueue(appendlog.QueueConfig{DB: db, Kind: "test", Table: "logs", Log: slog.New(slog.DiscardHandler),
		Store: func(ctx context.Context, tx *store.Tx, frames []appendlog.Frame) error {
			for _, f := range frames {
				if _, err := tx.ExecContext(ctx, "INSERT INTO frames (payload) VALUES (?)", f.Payload); err != nil {
					return err
				}
			}
			return nil
		}})
}

// Another process may find a file that is created before it is locked, and remove it.
func TestAppendCreatesAnotherFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q, _ := newQueue(t, dir)
	done := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				files, _ := filepath.Glob(filepath.Join(dir, "t.db-test-*"))
				for _, file := range files {
					if release := appendlog.Claim(file); release != nil {
						_ = release(true)
					}
				}
			}
		})
	}
	for range 100 {
		_, err := q.Append(t.Context(), []byte("frame"))
		if err == nil {
			err = q.Trim(t.Context())
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	others.Wait()
}

// Frames that are appended faster than the database takes them do not fill the disk.
func TestAppendWaitsForDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q, db := newQueue(t, dir)
	const frames, size = 4000, 10_000
	frame := []byte(strings.Repeat("x", size))
	for range frames {
		file, err := q.Append(t.Context(), frame)
		if err == nil {
			err = q.Sync(t.Context(), file, true)
		}
		if err != nil {
			t.Fatal(err)
		}
		if files, err := filepath.Glob(filepath.Join(dir, "t.db-test-*")); err != nil || len(files) > 4 {
			t.Fatalf("%d files wait, %v", len(files), err)
		}
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	var n, bytes int
	err := db.View(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT count(*), sum(length(payload)) FROM frames").Scan(&n, &bytes)
	})
	if err != nil || n != frames || bytes != frames*size {
		t.Errorf("%d frames with %d bytes are stored, %v", n, bytes, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 4 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A backup copies the files before the database: those that were stored and removed in between have frames
// which the copy of the database has.
func TestCopyStoresNoFrameTwice(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]func(*testing.T, *appendlog.Queue, *store.DB){
		"nothing follows": func(*testing.T, *appendlog.Queue, *store.DB) {},
		"its process goes on": func(t *testing.T, q *appendlog.Queue, _ *store.DB) {
			for range 2 {
				enqueue(t, q, "later")
				if err := q.Trim(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		},
		"another process stores frames": func(t *testing.T, q *appendlog.Queue, db *store.DB) {
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			other := queueOf(db)
			enqueue(t, other, "later")
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, db := newQueue(t, t.TempDir())
			for range 20 {
				enqueue(t, q, "frame")
			}
			copied := t.TempDir()
			to := filepath.Join(copied, "t.db")
			if err := appendlog.CopyLogs(store.Path(db), to, "test"); err != nil {
				t.Fatal(err)
			}
			if err := q.Trim(t.Context()); err != nil { // stores the frames, and removes the file
				t.Fatal(err)
			}
			later(t, q, db)
			if err := store.Snapshot(t.Context(), store.Path(db), to); err != nil {
				t.Fatal(err)
			}
			of, restored := newQueue(t, copied)
			if err := of.Close(); err != nil {
				t.Fatal(err)
			}
			var n int
			err := restored.View(t.Context(), func(tx *store.Tx) error {
				return tx.QueryRowContext(t.Context(), "SELECT count(*) FROM frames WHERE payload = CAST('frame' AS BLOB)").Scan(&n)
			})
			if err != nil || n != 20 {
				t.Errorf("the copy has %d frames, %v; want 20", n, err)
			}
			if left, err := filepath.Glob(filepath.Join(copied, "*-test-*")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func enqueue(t *testing.T, q *appendlog.Queue, frame string) {
	t.Helper()
	file, err := q.Append(t.Context(), []byte(frame))
	if err == nil {
		err = q.Sync(t.Context(), file, false)
	}
	if err != nil {
		t.Fatal(err)
	}
}
