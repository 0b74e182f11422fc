package appendlog

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"time"

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
	var stored map[string]position
	err = q.cfg.DB.View(ctx, func(tx *store.Tx) (err error) {
		stored, err = positions(ctx, tx, q.cfg.Table)
		return err
	})
	if err == nil && slices.ContainsFunc(names, func(name string) bool { return q.owns(name) || hasNew(q, name, stored) }) {
		err = q.Fold(ctx)
	}
	return err
}

// hasNew reports whether a file of another process has frames that are not stored, or can be removed.
func hasNew(q *Queue, name string, stored map[string]position) bool {
	if release := Claim(q.path(name)); release != nil {
		_ = release(false)
		return true
	}
	writer, file := parseName(name)
	found := errors.New("found")
	return Read(q.path(name), stored[writer].in(file), func(int64, []byte) error { return found }) == found
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

// foldIn stores the frames of all files, and for each writer the position of the last one.
func (q *Queue) foldIn(ctx context.Context, tx *store.Tx) (files []readFile, err error) {
	names, err := q.unfolded()
	if err != nil {
		return nil, err
	}
	stored, err := positions(ctx, tx, q.cfg.Table)
	if err != nil {
		return nil, err
	}
	var frames []Frame
	for _, name := range names {
		writer, file := parseName(name)
		r, err := q.read(name, stored[writer].in(file), &frames)
		files = append(files, r)
		if errors.Is(err, fs.ErrNotExist) { // another process has removed it
			continue
		}
		if err == nil && r.last > stored[writer].in(file) {
			stored[writer] = position{file, r.last, time.Now()}
			_, err = tx.ExecContext(ctx, "INSERT INTO "+q.cfg.Table+
				" (writer, file, frame, stored) VALUES (?, ?, ?, ?) ON CONFLICT (writer) DO UPDATE SET file = excluded.file, frame = "+
				"excluded.frame, stored = excluded.stored",
				writer, file, r.last, time.Now().UnixMilli())
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
// being written, and of frames that are stored already it does not matter.
func (q *Queue) read(name string, after int64, frames *[]Frame) (r readFile, err error) {
	r = readFile{name: name, remove: Claim(q.path(name))}
	writer, _ := parseName(name)
	err = Read(q.path(name), 0, func(number int64, payload []byte) error {
		if r.last = number; number > after {
			*frames = append(*frames, Frame{writer, payload})
		}
		return nil
	})
	if errors.Is(err, ErrDamaged) {
		err = nil
		if after != wholeFile {
			r.damaged = ErrDamaged
		}
	}
	return r, err
}

// Columns are those of the table of a Queue.
const Columns = `(
	writer TEXT    NOT NULL PRIMARY KEY,
	file   INTEGER NOT NULL, -- number of the last file of which frames are in the database; those before are there as a whole
	frame  INTEGER NOT NULL, -- number of the last frame of it that is in the database
	stored INTEGER NOT NULL  -- when that was stored, in Unix milliseconds
) STRICT, WITHOUT ROWID`

// keepPosition is how long a position is kept when the files of its writer are removed: a backup may have
// copied them before, and the database, which has their frames, after.
const keepPosition = time.Hour

// position is the last frame of a writer that is in the database.
type position struct {
	file  int64
	frame int64
	at    time.Time // when it was stored
}

const wholeFile = math.MaxInt64

// in returns the number of the last frame of a file that is in the database, wholeFile if all frames are.
func (p position) in(file int64) int64 {
	switch {
	case file < p.file:
		return wholeFile
	case file > p.file:
		return 0
	}
	return p.frame
}

// positions returns the positions by writer.
func positions(ctx context.Context, tx *store.Tx, table string) (map[string]position, error) {
	rows, err := tx.QueryContext(ctx, "SELECT writer, file, frame, stored FROM "+table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]position{}
	for rows.Next() {
		var writer string
		var p position
		var at int64
		if err := rows.Scan(&writer, &p.file, &p.frame, &at); err != nil {
			return nil, err
		}
		p.at = time.UnixMilli(at)
		all[writer] = p
	}
	return all, rows.Err()
}

// forgetRemoved deletes the old positions of writers that have no file any more.
func (q *Queue) forgetRemoved(ctx context.Context, tx *store.Tx, stored map[string]position) error {
	maps.DeleteFunc(stored, func(_ string, p position) bool { return time.Since(p.at) < keepPosition })
	if len(stored) == 0 {
		return nil
	}
	names, err := logNames(store.Path(q.cfg.DB), q.cfg.Kind)
	if err != nil {
		return err
	}
	for _, name := range names {
		writer, _ := parseName(name)
		delete(stored, writer)
	}
	for writer := range stored {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+q.cfg.Table+" WHERE writer = ?", writer); err != nil {
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
		q.cfg.Log.Error("what a process that has ended has recorded last is lost", "kept", kept, "error",
			errors.Join(r.damaged, os.Rename(q.path(r.name), kept)))
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
