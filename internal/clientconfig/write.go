package clientconfig

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// maxFile is the greatest size of a file. Claude Code stores its history in its configuration file.
const maxFile = 32 << 20

// readFile returns the content of a file, nil if it does not exist. Its errors are predicates.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		return nil, errors.New("is not a regular file of at most 32 MiB")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.New("cannot be read")
	}
	return text, nil
}

// Change is a new content for one file.
type Change struct {
	Path     string
	Old, New []byte      // Old is the content from which New was made; nil for no file
	Mode     fs.FileMode // of a new file; an existing file keeps its mode
}

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
	path := c.Path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.ReplaceFile(path, c.New, modeOf(path, c.Mode), func() error {
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

// copyBeside writes a text to the path with a suffix, with the mode of the file at path.
func copyBeside(path, suffix string, text []byte) error {
	return durable.ReplaceFile(path+suffix, text, modeOf(path, 0o600), nil)
}

// modeOf returns the mode of a file, or that of a new one.
func modeOf(path string, ofNew fs.FileMode) fs.FileMode {
	if info, err := os.Stat(path); err == nil {
		return info.Mode().Perm()
	}
	return ofNew
}
