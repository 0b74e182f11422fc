// Package projection maintains a directory of files that are generated from a
// database, for code in a sandbox to read.
//
// The directory itself is never replaced, since it is mounted in sandboxes; files in
// it are replaced atomically. A process changes the directory only while it holds the
// lock, and reads the database after acquiring it: so the last of several writers
// has the newest data, and the directory matches the database even if a process is
// killed. Nothing is synced: the next refresh restores files lost by a power failure.
//
// A Dir is safe for concurrent use, and several processes may have one for the
// same directory. The package does not read the database or interpret the files.
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

// Dir is a projected directory.
type Dir struct {
	path string
	lock *flock.Flock

	mu      sync.Mutex // excludes goroutines of this process; lock excludes other processes
	version int64      // database version of the last Refresh; -1 means none
}

// New returns the Dir at path, which must exist. The lock file must be outside the
// directory; it is created when it is first needed.
func New(path, lock string) *Dir {
	return &Dir{path: path, lock: flock.New(lock, flock.SetPermissions(0o600)), version: -1}
}

// Update runs f with exclusive write access to the directory, over all processes.
func (d *Dir) Update(ctx context.Context, f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ok, err := d.lock.TryLockContext(ctx, 5*time.Millisecond); !ok {
		return err
	}
	defer d.lock.Unlock()
	return f()
}

// Refresh runs f as Update does. f generates the directory from the database and
// returns the version of the data. Refresh does nothing if the last successful
// Refresh of d returned this version.
func (d *Dir) Refresh(ctx context.Context, version int64, f func() (int64, error)) error {
	if d.isCurrent(version) {
		return nil
	}
	return d.Update(ctx, func() error {
		v, err := f()
		if err == nil {
			d.version = v
		}
		return err
	})
}

func (d *Dir) isCurrent(version int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.version == version
}

// Prune removes everything except regular files with a wanted name. Prune, Put and
// Remove must be called within Update or Refresh.
func (d *Dir) Prune(wanted func(name string) bool) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if wanted(e.Name()) && e.Type().IsRegular() {
			continue
		}
		if err := os.RemoveAll(d.Path(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Put creates or atomically replaces one file. Its modification time is set to at
// unless that is zero.
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
		err = os.Rename(f.Name(), d.Path(name))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Link atomically makes name another name of the file of, or a copy if the file system has
// no hard links.
func (d *Dir) Link(of, name string) error {
	const temporary = ".new-link"
	if err := d.Remove(temporary); err != nil { // left by a killed process
		return err
	}
	if err := os.Link(d.Path(of), d.Path(temporary)); err != nil {
		return d.copy(of, name)
	}
	if err := os.Rename(d.Path(temporary), d.Path(name)); err != nil {
		return err
	}
	return d.Remove(temporary) // still exists if name was the same file already
}

func (d *Dir) copy(of, name string) error {
	content, err := os.ReadFile(d.Path(of))
	if err != nil {
		return err
	}
	fi, err := os.Stat(d.Path(of))
	if err != nil {
		return err
	}
	return d.Put(name, content, fi.ModTime())
}

// Remove removes one file. It returns nil if there is none.
func (d *Dir) Remove(name string) error {
	err := os.Remove(d.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Path returns the path of a file in the directory.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }
