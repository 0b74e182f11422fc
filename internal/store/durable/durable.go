// Package durable makes a change of a directory survive a loss of power: a file that
// was created, renamed or removed. It keeps no state, and is safe for concurrent use.
package durable

import (
	"errors"
	"os"
	"syscall"
)

// Dir writes the names in a directory to disk. Systems that cannot do this refuse it,
// and it is then left to them.
func Dir(path string) error {
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
