// Package rewrite replaces configuration files of this program and of others. Two commands do not do so
// at the same time, and no change that another program makes at the same time is lost.
package rewrite

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// Change is a new content for one file.
type Change struct {
	Path     string
	Old, New []byte      // Old is the content from which New was made; nil for no file
	Mode     fs.FileMode // of a new file; an existing file keeps its mode
}

// errChanged is returned for a file whose content is not the expected one.
var errChanged = errors.New("content changed")

// Error converts an error of a write for display.
func Error(path string, err error) error {
	if errors.Is(err, errChanged) {
		return fault.Wrap(fault.Unavailable, err, "%s was changed by another program at the same time; it was not written", path).
			WithHint("quit the client if it is running, and run the command again")
	}
	return fault.Wrap(fault.Unavailable, err, "%s cannot be written", path).WithHint("check that its directory exists and is writable")
}

// Check refuses dangling links, read-only files, and paths that are not
// regular files.
func Check(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return fault.New(fault.Invalid, "%s is a link to a file that does not exist", path)
		}
		return nil
	}
	if err != nil {
		return Error(path, err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o200 == 0 {
		return fault.New(fault.Denied, "%s is read-only or not a regular file", path).
			WithHint("if another program generates it, configure that program")
	}
	return nil
}

// Write replaces a file atomically if its content is still c.Old. It keeps
// the mode of the file, and a link to it.
func Write(c Change) error {
	path := c.Path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.ReplaceFile(path, c.New, ModeOf(path, c.Mode), func() error {
		now, err := os.ReadFile(path)
		if missing := errors.Is(err, fs.ErrNotExist); missing && c.Old == nil {
			return nil
		}
		if err != nil || c.Old == nil || !bytes.Equal(now, c.Old) {
			return errors.Join(errChanged, err)
		}
		return nil
	})
}

// ModeOf returns the mode of a file, or that of a new one.
func ModeOf(path string, ofNew fs.FileMode) fs.FileMode {
	if info, err := os.Stat(path); err == nil {
		return info.Mode().Perm()
	}
	return ofNew
}

// Lock excludes other processes that change configuration files. The lock is beside the list of files that
// sandpiper init has written, in dir.
func Lock(dir string) (unlock func(), err error) {
	list := filepath.Join(dir, "init.json")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, Error(list, err)
	}
	l := flock.New(list + ".lock")
	if ok, err := l.TryLock(); err != nil || !ok {
		return nil, fault.Wrap(fault.Unavailable, err, "another sandpiper init is running").
			WithHint("run the command again when it has finished")
	}
	return func() { _ = l.Unlock() }, nil
}

// Replace writes one file, with the lock in dir.
func Replace(dir string, c Change) error {
	unlock, err := Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := Check(c.Path); err != nil {
		return err
	}
	if err := Write(c); err != nil {
		return Error(c.Path, err)
	}
	return nil
}
