// Package durable makes changes of files and directories survive a loss of power. It has
// no state and is safe for concurrent use.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// WriteFile atomically creates or replaces a file with mode 0600 and syncs it.
func WriteFile(path string, content []byte) error { return ReplaceFile(path, content, 0o600, nil) }

// ReplaceFile is WriteFile with another mode. It calls check, if not nil, immediately before the file gets its
// name; an error of check cancels that.
func ReplaceFile(path string, content []byte, mode fs.FileMode, check func() error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close(), os.Chmod(f.Name(), mode)); err != nil {
		return err
	}
	if check != nil {
		if err := check(); err != nil {
			return err
		}
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Probe fails if no file can be written in a directory: it writes, syncs and deletes a small one.
func Probe(dir string) error {
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}

// SyncDir syncs a directory to disk. It returns an error only if the directory cannot
// be opened, the disk is full or an I/O error occurs: some systems cannot sync a
// directory, and their error is ignored.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EIO) {
		return err
	}
	return nil
}
