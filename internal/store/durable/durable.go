// Package durable makes directory changes (a created, renamed or removed file) survive
// a loss of power. It has no state and is safe for concurrent use.
package durable

import (
	"errors"
	"os"
	"syscall"
)

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
