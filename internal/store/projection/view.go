// Package projection keeps a directory of files that are made from a database, for
// code in a sandbox to read.
//
// The directory itself never changes, since it is mounted in sandboxes; files in
// it are replaced whole. Whoever changes it holds the lock, and reads the
// database after getting it: so of several processes the last one to write has
// the newest truth, and the directory ends up as the database is, whichever of
// them saved or died. Nothing is synced: what a loss of power takes from it the
// next refresh puts back.
//
// A Dir is safe for concurrent use, and several processes may have one for the
// same directory. The package knows neither the database nor what is in the
// files.
package projection

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// Dir is such a directory.
type Dir struct {
	path string
	lock *flock.Flock

	mu    sync.Mutex // one at a time in this process; the lock is for others
	known int64      // the version that the directory was found to show; -1 is none
}

// New returns the Dir at path, which must exist. The file lock, which must lie
// outside of it, is made when it is first needed.
func New(path, lock string) *Dir {
	return &Dir{path: path, lock: flock.New(lock, flock.SetPermissions(0o600)), known: -1}
}

// Change runs f while nobody else changes the directory.
func (d *Dir) Change(ctx context.Context, f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ok, err := d.lock.TryLockContext(ctx, 5*time.Millisecond); !ok {
		return err
	}
	defer d.lock.Unlock()
	return f()
}

// Refresh is Change, for an f that makes the directory what the database says
// and returns the version of that. It does nothing if the last Refresh here came
// to this version.
func (d *Dir) Refresh(ctx context.Context, version int64, f func() (int64, error)) error {
	if d.shows(version) {
		return nil
	}
	return d.Change(ctx, func() error {
		v, err := f()
		if err == nil {
			d.known = v
		}
		return err
	})
}

func (d *Dir) shows(version int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known == version
}

// Keep removes everything that is no regular file with a wanted name. It is
// called within Change, as all that follow are.
func (d *Dir) Keep(wanted func(name string) bool) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if wanted(e.Name()) && e.Type().IsRegular() {
			continue
		}
		if err := os.RemoveAll(d.File(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Put makes or replaces one file. Its time of modification becomes at, unless
// that is zero.
func (d *Dir) Put(name string, content []byte, at time.Time) error {
	f, err := os.CreateTemp(d.path, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil && !at.IsZero() {
		err = os.Chtimes(f.Name(), at, at)
	}
	if err == nil {
		err = os.Rename(f.Name(), d.File(name))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Remove removes one file, or finds that it is gone.
func (d *Dir) Remove(name string) error {
	err := os.Remove(d.File(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// File is the path of a file in the directory.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }
