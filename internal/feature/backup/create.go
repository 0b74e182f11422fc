package backup

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// createFile creates a file with mode 0600 that has its name only once it is complete and on disk.
func createFile(path string, write func(io.Writer) error) error {
	dir := filepath.Dir(path)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fault.New(fault.Invalid, "%s exists already; nothing was written", path).WithHint("give another name"))
	}
	f, link, err := createUnnamed(dir)
	if err != nil {
		if f, err = os.CreateTemp(dir, ".new-"+filepath.Base(path)+"-*"); err != nil {
			return fault.Wrap(fault.Invalid, err, "create a file in %s: %v", dir, err)
		}
		defer os.Remove(f.Name())
		link = func(path string) error {
			err := os.Link(f.Name(), path)
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return os.Rename(f.Name(), path) // on file systems without hard links
			}
			return err
		}
	}
	defer f.Close()
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = link(path)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}
