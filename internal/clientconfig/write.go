package clientconfig

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// errChanged is returned for a file whose content is not the expected one.
var errChanged = errors.New("content changed")

// writeError converts an error of a write for display.
func writeError(path string, err error) error {
	if errors.Is(err, errChanged) {
		return fault.Wrap(fault.Unavailable, err, "%s was changed by another program at the same time; it was not written", path).
			WithHint("quit the client if it is running, and run the command again")
	}
	return fault.Wrap(fault.Unavailable, err, "%s cannot be written", path).WithHint("check that its directory exists and is writable")
}

// checkWritable refuses dangling links, read-only files, and paths that are not
// regular files.
func checkWritable(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return fault.New(fault.Invalid, "%s is a link to a file that does not exist", path)
		}
		return nil
	}
	if err != nil {
		return writeError(path, err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o200 == 0 {
		return fault.New(fault.Denied, "%s is read-only or not a regular file", path).WithHint("if another program generates it, configure that program")
	}
	return nil
}

// replaceFile replaces a file atomically if its content is still c.Old. It keeps
// the mode of the file, and a link to it.
func replaceFile(c Change) error {
	path, mode := c.Path, c.Mode
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.ReplaceFile(path, c.New, mode, func() error {
		now, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && c.Old == nil:
			return nil
		case err != nil || c.Old == nil || !bytes.Equal(now, c.Old):
			return errors.Join(errChanged, err)
		}
		return nil
	})
}
