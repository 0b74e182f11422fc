package appendlog

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

const (
	foldDelay = 500 * time.Millisecond // from a frame to the commit that stores it in the database
	foldSize  = 4 << 20                // bytes of a file, after which frames are appended to another one
	foldRetry = 5 * time.Second        // after an error
	maxOld    = 2                      // files that wait to be stored, before Append stores them itself
	maxTries  = 100                    // to create a file, which others may take for that of a process that has ended
	fullOld   = 16                     // likewise, before Append fails with the error of that
)

// Frame is a frame that is to be stored in the database.
type Frame struct {
	Writer  string // of the Queue that has written it; no other one has it
	Payload []byte
}

// QueueConfig configures a Queue. All fields are required.
type QueueConfig struct {
	DB    *store.DB
	Kind  string // a word, that names the files
	Table string // of the positions of the stored frames, with Columns
	// Store stores frames in the database, in the order in which each writer has written them.
	Store func(context.Context, *store.Tx, []Frame) error
	Log   *slog.Logger
}

// Queue stores frames in a database some time after they are on disk in a file next to it. Each process has
// a file of its own. A transaction of Update or View begins with storing the frames of all files, whichever
// process has written them; a timer does that too. The commit stores the number of the last frame with them,
// so that no frame is stored twice. Only one Queue of a database and kind may be used by a process; several are
// as those of several processes. It is safe for concurrent use.
type Queue struct {
	cfg    QueueConfig
	writer string

	mu     sync.Mutex
	file   *Log            // nil until a frame is appended
	name   string          // of the file
	old    map[string]*Log // files before that, by name, until their frames are in the database
	files  int             // that were created
	due    *time.Timer     // stores the frames in the database; nil if that is not scheduled
	folds  sync.WaitGroup
	closed bool
}

// NewQueue returns a Queue. It creates no file.
func NewQueue(cfg QueueConfig) *Queue {
	return &Queue{cfg: cfg, writer: strings.ToLower(rand.Text()[:16]), old: map[string]*Log{}}
}

// Append appends a frame and returns the file for Sync. An empty one is not appended, and Sync then
// syncs the frames before. A file that cannot be written any more is replaced when its frames are in the
// database.
func (q *Queue) Append(ctx context.Context, frame []byte) (*Log, error) {
	if n := waiting(q); n >= maxOld { // frames are appended faster than the database takes them
		if err := q.Fold(ctx); err != nil && n >= fullOld {
			return nil, err
		}
	}
	file, err := q.append(frame)
	if err == nil {
		return file, nil
	}
	if q.Fold(ctx) != nil {
		return nil, err
	}
	return q.append(frame)
}

// waiting returns the number of files that wait to be stored.
func waiting(q *Queue) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.old)
}

func (q *Queue) append(frame []byte) (_ *Log, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(frame) == 0 {
		return q.file, nil
	}
	if q.file != nil && q.file.Size() > foldSize {
		if err := q.retire(); err != nil {
			return nil, err
		}
	}
	for tries := 0; q.file == nil; tries++ {
		q.files++
		q.name = fileName(q.writer, q.files)
		if q.file, err = Create(q.path(q.name)); err != nil && (tries == maxTries || !errors.Is(err, fs.ErrExist)) {
			return nil, err
		}
	}
	if err := q.file.Append(frame); err != nil {
		return nil, err
	}
	q.schedule(foldDelay)
	return q.file, nil
}

// retire makes the file an old one. The caller holds the lock.
func (q *Queue) retire() error {
	if err := q.file.Sync(); err != nil { // what is synced in the next one needs this
		return err
	}
	q.old[q.name], q.file = q.file, nil
	if q.due != nil && q.due.Stop() {
		q.due.Reset(0)
	}
	return nil
}

// Sync syncs what was appended to a file, or within 50 milliseconds if that is deferred.
func (q *Queue) Sync(ctx context.Context, file *Log, deferred bool) error {
	switch {
	case file == nil:
		return nil
	case deferred:
		file.SyncLater()
		return nil
	}
	err := file.Sync()
	if err != nil && q.Fold(ctx) == nil { // which has synced the frames elsewhere
		return nil
	}
	return err
}

// schedule stores the frames in the database after a time. The caller holds the lock.
func (q *Queue) schedule(after time.Duration) {
	if q.due != nil || q.closed {
		return
	}
	q.folds.Add(1)
	q.due = time.AfterFunc(after, func() {
		defer q.folds.Done()
		q.mu.Lock()
		q.due = nil
		q.mu.Unlock()
		if err := q.Fold(context.Background()); err != nil {
			q.cfg.Log.Warn("store what was appended in the database", "kind", q.cfg.Kind, "error", err)
			q.mu.Lock()
			defer q.mu.Unlock()
			q.schedule(foldRetry)
		}
	})
}

// fileName names a file so that those of a writer are sorted as they were created.
func fileName(writer string, file int) string { return fmt.Sprintf("%s.%09d", writer, file) }

func parseName(name string) (writer string, file int64) {
	writer, number, _ := strings.Cut(name, ".")
	file, _ = strconv.ParseInt(number, 10, 64)
	return writer, file
}

func (q *Queue) path(name string) string { return filePath(q.cfg.DB, q.cfg.Kind, name) }

func filePath(db *store.DB, kind, name string) string {
	return store.Path(db) + "-" + kind + "-" + name
}

// unfolded returns the names of the files that may have frames which are not in the database.
func (q *Queue) unfolded() ([]string, error) {
	names, err := logNames(store.Path(q.cfg.DB), q.cfg.Kind)
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(names, func(name string) bool { return q.file != nil && name == q.name && q.file.Size() == 0 }), err
}

// logNames returns the names of the files of a kind next to a database.
func logNames(path, kind string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+"-"+kind+"-"); ok {
			names = append(names, name)
		}
	}
	if errors.Is(err, fs.ErrNotExist) { // as the database
		err = nil
	}
	return names, err
}

// CopyLogs copies the files of a kind next to the database at a path to those of another path, before the
// database is copied: a Queue of the copy then stores the frames that it does not have.
func CopyLogs(from, to, kind string) error {
	names, err := logNames(from, kind)
	for _, name := range names {
		text, wrong := os.ReadFile(from + "-" + kind + "-" + name)
		if wrong == nil {
			wrong = os.WriteFile(to+"-"+kind+"-"+name, text, 0o600)
		}
		if wrong != nil && !errors.Is(wrong, fs.ErrNotExist) { // the frames of a removed one are in the database
			err = errors.Join(err, wrong)
		}
	}
	return err
}

// Trim stores all frames in the database and removes the file, which the next Append creates again.
func (q *Queue) Trim(ctx context.Context) error {
	err := q.foldNew(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.file != nil && err == nil && q.file.Size() == 0 {
		err = q.file.Remove()
		q.file = nil
	}
	return err
}

// Close stores all frames in the database and removes the file. If that fails, the next process that
// uses the database stores them. It does not close the database.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.closed = true
	if q.due != nil && q.due.Stop() {
		q.folds.Done()
	}
	q.mu.Unlock()
	q.folds.Wait()
	err := q.Trim(context.Background())
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.file != nil {
		q.old[q.name], q.file = q.file, nil
	}
	for _, file := range q.old {
		err = cmp.Or(err, errors.Join(file.Sync(), file.Close()))
	}
	clear(q.old)
	return err
}
