package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/appendlog"
)

const (
	foldDelay = 500 * time.Millisecond // from a line to the commit that stores it in the database
	foldSize  = 4 << 20                // bytes of a file, after which lines are appended to another one
	foldRetry = 5 * time.Second        // after an error
)

// Names of files, after that of the database: logs of calls, and damaged ones.
const (
	callsInfix   = "-calls-"
	damagedInfix = "-damaged-"
)

// callLog is the log of calls of a Log. Lines are on disk in a file of this process before they are in the
// database. Every transaction that reads or writes the tables of the journal begins with storing the lines
// of all such files in the database, whichever process has written them; so does a timer. A commit stores
// the number of the last frame with them, so that no line is stored twice.
type callLog struct {
	cfg *Config
	id  string // of the calls that are begun; no other callLog has it

	mu     sync.Mutex
	file   *appendlog.Log            // nil until a line is appended
	name   string                    // of the file
	old    map[string]*appendlog.Log // files before that, by name, until their lines are in the database
	files  int                       // that were created
	calls  int64                     // that were begun
	due    *time.Timer               // stores the lines in the database; nil if that is not scheduled
	folds  sync.WaitGroup
	closed bool
}

func newCallLog(cfg *Config) *callLog {
	return &callLog{cfg: cfg, id: strings.ToLower(rand.Text()[:16]), old: map[string]*appendlog.Log{}}
}

// nextCall returns the number of a call that begins.
func (c *callLog) nextCall() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	return c.calls
}

// add appends lines, which are read together or not at all. They are on disk when add returns, or within
// 50 milliseconds if they are deferred.
func (c *callLog) add(ctx context.Context, lines []line, deferred bool) error {
	file, err := c.append(ctx, lines)
	if err != nil {
		return err
	}
	return c.sync(ctx, file, deferred)
}

// append appends lines and returns the file for sync; no lines for the lines before. A file that cannot be
// written any more is replaced when its lines are in the database.
func (c *callLog) append(ctx context.Context, lines []line) (*appendlog.Log, error) {
	var b []byte
	for _, l := range lines {
		b = appendLine(b, l)
	}
	file, err := c.appendFrame(b)
	if err == nil {
		return file, nil
	}
	if c.fold(ctx) != nil {
		return nil, err
	}
	return c.appendFrame(b)
}

func (c *callLog) appendFrame(b []byte) (_ *appendlog.Log, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(b) == 0 {
		return c.file, nil
	}
	if c.file != nil && c.file.Size() > foldSize {
		if err := c.file.Sync(); err != nil { // what is synced in the next one needs this
			return nil, err
		}
		c.old[c.name], c.file = c.file, nil
		if c.due != nil && c.due.Stop() {
			c.due.Reset(0)
		}
	}
	if c.file == nil {
		c.files++
		c.name = fmt.Sprintf("%s.%d", c.id, c.files)
		if c.file, err = appendlog.Create(store.Path(c.cfg.DB) + callsInfix + c.name); err != nil {
			return nil, err
		}
	}
	if err := c.file.Append(b); err != nil {
		return nil, err
	}
	c.schedule(foldDelay)
	return c.file, nil
}

// sync syncs what was appended to a file.
func (c *callLog) sync(ctx context.Context, file *appendlog.Log, deferred bool) error {
	switch {
	case file == nil:
		return nil
	case deferred:
		file.SyncLater()
		return nil
	}
	err := file.Sync()
	if err != nil && c.fold(ctx) == nil { // which has synced the lines elsewhere
		return nil
	}
	return err
}

// schedule stores the lines in the database after a time. The caller holds the lock.
func (c *callLog) schedule(after time.Duration) {
	if c.due != nil || c.closed {
		return
	}
	c.folds.Add(1)
	c.due = time.AfterFunc(after, func() {
		defer c.folds.Done()
		c.mu.Lock()
		c.due = nil
		c.mu.Unlock()
		if err := c.fold(context.Background()); err != nil {
			c.cfg.Log.Warn("store the log of calls in the database", "error", err)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.schedule(foldRetry)
		}
	})
}

// fold stores the lines of all logs in the database.
func (c *callLog) fold(ctx context.Context) error {
	db := c.cfg.DB
	return c.transact(context.WithoutCancel(ctx), func(ctx context.Context, f func(*store.Tx) error) error {
		err := db.UpdateDeferredSync(ctx, f) // others need not wait for the sync
		if err == nil {
			err = db.Sync()
		}
		return err
	}, func(*store.Tx) error { return nil })
}

// update runs f in a write transaction, after the lines of all logs.
func (c *callLog) update(ctx context.Context, f func(*store.Tx) error) error {
	return c.transact(ctx, c.cfg.DB.Update, f)
}

// view runs f in a read transaction, after the lines of all logs.
func (c *callLog) view(ctx context.Context, f func(*store.Tx) error) error {
	if err := c.foldNew(ctx); err != nil {
		return err
	}
	return c.cfg.DB.View(ctx, f)
}

// foldNew is fold if there may be lines that are not in the database.
func (c *callLog) foldNew(ctx context.Context) error {
	names, err := c.unfolded()
	if err != nil || len(names) == 0 {
		return err
	}
	return c.fold(ctx)
}

// unfolded returns the names of the logs that may have lines which are not in the database.
func (c *callLog) unfolded() (names []string, err error) {
	names, err = logNames(store.Path(c.cfg.DB))
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(names, func(name string) bool { return c.file != nil && name == c.name && c.file.Size() == 0 }), err
}

// logNames returns the names of the logs of calls beside a database.
func logNames(path string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+callsInfix); ok {
			names = append(names, name)
		}
	}
	if errors.Is(err, fs.ErrNotExist) { // as the database
		err = nil
	}
	return names, err
}

// HasLogs reports whether there are logs of calls beside the database at path, whose lines may not be in it:
// Close of any Log of the database stores them.
func HasLogs(path string) (bool, error) {
	names, err := logNames(path)
	return len(names) > 0, err
}

// transact runs f in a transaction of update, after the lines of all logs.
func (c *callLog) transact(ctx context.Context, update func(context.Context, func(*store.Tx) error) error, f func(*store.Tx) error) error {
	var read []readLog
	err := update(ctx, func(tx *store.Tx) (err error) {
		if read, err = c.foldIn(ctx, tx); err == nil {
			err = f(tx)
		}
		return err
	})
	for _, r := range read {
		c.finish(r, err == nil)
	}
	return err
}

// readLog is a log whose lines a transaction has stored.
type readLog struct {
	name    string
	last    int64            // number of the last frame
	remove  func(bool) error // of a log that no process appends to; see appendlog.Claim
	damaged error
}

// finish forgets the lines of a log if they are in the database.
func (c *callLog) finish(r readLog, stored bool) {
	path := store.Path(c.cfg.DB) + callsInfix + r.name
	if r.remove == nil {
		if stored {
			c.forget(r.name, r.last)
		}
		return
	}
	if stored && r.damaged != nil {
		kept := store.Path(c.cfg.DB) + damagedInfix + r.name
		c.cfg.Log.Error("calls of a process that has ended are lost", "kept", kept, "error", errors.Join(r.damaged, os.Rename(path, kept)))
		stored = false
	}
	_ = r.remove(stored) // the next transaction tries again
}

// forget forgets the frames of a file of this process up to the last one, and removes a file to which nothing
// is appended any more.
func (c *callLog) forget(name string, last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch file := c.old[name]; {
	case file != nil && file.Reset(last):
		_ = file.Remove()
		delete(c.old, name)
	case c.file != nil && name == c.name && c.file.Reset(last) && !c.file.Usable():
		_ = c.file.Remove()
		c.file = nil
	}
}

// trim stores all lines in the database and removes the file.
func (c *callLog) trim(ctx context.Context) error {
	err := c.foldNew(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil && err == nil && c.file.Size() == 0 {
		err = c.file.Remove()
		c.file = nil
	}
	return err
}

// close stores all lines in the database and removes the file. If that fails, the next process that
// uses the database stores them.
func (c *callLog) close() error {
	c.mu.Lock()
	c.closed = true
	if c.due != nil && c.due.Stop() {
		c.folds.Done()
	}
	c.mu.Unlock()
	c.folds.Wait()
	err := c.trim(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil {
		c.old[c.name], c.file = c.file, nil
	}
	for _, file := range c.old {
		err = errors.Join(err, file.Sync(), file.Close())
	}
	clear(c.old)
	return err
}

// foldIn stores the lines of all logs, and for each log the number of the last frame.
func (c *callLog) foldIn(ctx context.Context, tx *store.Tx) (read []readLog, err error) {
	names, err := c.unfolded()
	if err != nil {
		return nil, err
	}
	stored, err := storedFrames(ctx, tx)
	if err != nil {
		return nil, err
	}
	var lines folding
	for _, name := range names {
		r, err := c.read(name, stored[name], &lines)
		read = append(read, r)
		if errors.Is(err, fs.ErrNotExist) { // another process has removed it
			continue
		}
		if err == nil && r.last > stored[name] {
			_, err = tx.ExecContext(ctx, "INSERT INTO journal_logs (log, frame) VALUES (?, ?) ON CONFLICT (log) DO UPDATE SET frame = excluded.frame", name, r.last)
		}
		if err != nil {
			return read, err
		}
	}
	if err := c.forgetRemoved(ctx, tx, stored); err != nil {
		return read, err
	}
	return read, lines.apply(ctx, tx, c.cfg)
}

// read reads the frames of a log after a number. Damage of a log in use is that of a frame which is just
// being written.
func (c *callLog) read(name string, after int64, lines *folding) (r readLog, err error) {
	path := store.Path(c.cfg.DB) + callsInfix + name
	r = readLog{name: name, last: after, remove: appendlog.Claim(path)}
	id, _, _ := strings.Cut(name, ".")
	err = appendlog.Read(path, after, func(number int64, payload []byte) error {
		some, err := readLines(payload)
		if err == nil {
			r.last = number
			lines.add(id, some)
		}
		return err
	})
	if errors.Is(err, appendlog.ErrDamaged) {
		r.damaged, err = err, nil
	}
	return r, err
}

// storedFrames returns the number of the last stored frame of each log.
func storedFrames(ctx context.Context, tx *store.Tx) (map[string]int64, error) {
	rows, err := tx.QueryContext(ctx, "SELECT log, frame FROM journal_logs")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	stored := map[string]int64{}
	for rows.Next() {
		var name string
		var frame int64
		if err := rows.Scan(&name, &frame); err != nil {
			return nil, err
		}
		stored[name] = frame
	}
	return stored, rows.Err()
}

// forgetRemoved deletes the numbers of logs that no longer exist.
func (c *callLog) forgetRemoved(ctx context.Context, tx *store.Tx, stored map[string]int64) error {
	for name := range stored {
		if _, err := os.Lstat(store.Path(c.cfg.DB) + callsInfix + name); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM journal_logs WHERE log = ?", name); err != nil {
			return err
		}
	}
	return nil
}
