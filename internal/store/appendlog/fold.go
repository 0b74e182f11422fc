package appendlog

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Fold stores the frames of all files in the database.
func (q *Queue) Fold(ctx context.Context) error {
	return q.transact(context.WithoutCancel(ctx), q.cfg.DB.UpdateDeferredSync, func(*store.Tx) error { return nil })
}

// foldNew is Fold if there are frames that are not in the database.
func (q *Queue) foldNew(ctx context.Context) error {
	names, err := q.unfolded()
	if err != nil || len(names) == 0 {
		return err
	}
	var stored map[string]int64
	err = q.cfg.DB.View(ctx, func(tx *store.Tx) (err error) {
		stored, err = storedFrames(ctx, tx, q.cfg.Table)
		return err
	})
	if err == nil && slices.ContainsFunc(names, func(name string) bool { return q.owns(name) || hasNew(q.path(name), stored[name]) }) {
		err = q.Fold(ctx)
	}
	return err
}

// hasNew reports whether a file of another process has frames after a number, or can be removed.
func hasNew(path string, after int64) bool {
	if release := Claim(path); release != nil {
		_ = release(false)
		return true
	}
	found := errors.New("found")
	return Read(path, after, func(int64, []byte) error { return found }) == found
}

// owns reports whether this Queue appends to a file, or did.
func (q *Queue) owns(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.old[name] != nil || q.file != nil && name == q.name
}

// Update runs f in a write transaction, after the frames of all files.
func (q *Queue) Update(ctx context.Context, f func(*store.Tx) error) error {
	return q.transact(ctx, q.cfg.DB.Update, f)
}

// View runs f in a read transaction, after the frames of all files.
func (q *Queue) View(ctx context.Context, f func(*store.Tx) error) error {
	if err := q.foldNew(ctx); err != nil {
		return err
	}
	return q.cfg.DB.View(ctx, f)
}

// transact runs f in a transaction of update, after the frames of all files.
func (q *Queue) transact(ctx context.Context, update func(context.Context, func(*store.Tx) error) error, f func(*store.Tx) error) error {
	var files []readFile
	err := update(ctx, func(tx *store.Tx) (err error) {
		if files, err = q.foldIn(ctx, tx); err == nil {
			err = f(tx)
		}
		return err
	})
	if err == nil && slices.ContainsFunc(files, func(r readFile) bool { return r.remove != nil || q.owns(r.name) }) {
		err = q.cfg.DB.Sync() // also what another process has stored
	}
	for _, r := range files {
		q.finish(r, err == nil)
	}
	return err
}

// readFile is a file whose frames a transaction stores.
type readFile struct {
	name    string
	last    int64            // number of the last frame
	remove  func(bool) error // of a file that no process appends to; see Claim
	damaged error
}

// foldIn stores the frames of all files, and for each file the number of the last one.
func (q *Queue) foldIn(ctx context.Context, tx *store.Tx) (files []readFile, err error) {
	names, err := q.unfolded()
	if err != nil {
		return nil, err
	}
	stored, err := storedFrames(ctx, tx, q.cfg.Table)
	if err != nil {
		return nil, err
	}
	var frames []Frame
	for _, name := range names {
		r, err := q.read(name, stored[name], &frames)
		files = append(files, r)
		if errors.Is(err, fs.ErrNotExist) { // another process has removed it
			continue
		}
		if err == nil && r.last > stored[name] {
			_, err = tx.ExecContext(ctx, "INSERT INTO "+q.cfg.Table+" (log, frame) VALUES (?, ?) ON CONFLICT (log) DO UPDATE SET frame = excluded.frame", name, r.last)
		}
		if err != nil {
			return files, err
		}
	}
	if err := q.forgetRemoved(ctx, tx, stored); err != nil || len(frames) == 0 {
		return files, err
	}
	return files, q.cfg.Store(ctx, tx, frames)
}

// read reads the frames of a file after a number. Damage of a file in use is that of a frame which is just
// being written.
func (q *Queue) read(name string, after int64, frames *[]Frame) (r readFile, err error) {
	r = readFile{name: name, last: after, remove: Claim(q.path(name))}
	writer, _, _ := strings.Cut(name, ".")
	err = Read(q.path(name), after, func(number int64, payload []byte) error {
		r.last = number
		*frames = append(*frames, Frame{writer, payload})
		return nil
	})
	if errors.Is(err, ErrDamaged) {
		r.damaged, err = err, nil
	}
	return r, err
}

// storedFrames returns the number of the last stored frame of each file.
func storedFrames(ctx context.Context, tx *store.Tx, table string) (map[string]int64, error) {
	rows, err := tx.QueryContext(ctx, "SELECT log, frame FROM "+table)
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

// forgetRemoved deletes the numbers of files that no longer exist.
func (q *Queue) forgetRemoved(ctx context.Context, tx *store.Tx, stored map[string]int64) error {
	for name := range stored {
		if _, err := os.Lstat(q.path(name)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+q.cfg.Table+" WHERE log = ?", name); err != nil {
			return err
		}
	}
	return nil
}

// finish forgets the frames of a file if they are in the database.
func (q *Queue) finish(r readFile, stored bool) {
	if r.remove == nil {
		if stored {
			q.forget(r.name, r.last)
		}
		return
	}
	if stored && r.damaged != nil {
		kept := filePath(q.cfg.DB, "damaged-"+q.cfg.Kind, r.name)
		q.cfg.Log.Error("what a process that has ended has recorded last is lost", "kept", kept, "error", errors.Join(r.damaged, os.Rename(q.path(r.name), kept)))
		stored = false
	}
	_ = r.remove(stored) // the next transaction tries again
}

// forget forgets the frames of a file of this Queue up to the last one, and removes a file to which nothing
// is appended any more.
func (q *Queue) forget(name string, last int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch file := q.old[name]; {
	case file != nil && file.Reset(last):
		_ = file.Remove()
		delete(q.old, name)
	case q.file != nil && name == q.name && q.file.Reset(last) && !q.file.Usable():
		_ = q.file.Remove()
		q.file = nil
	}
}
