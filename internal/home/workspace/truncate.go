package workspace

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Truncate shortens a file to size bytes, which frees space of a full workspace. It never makes
// a file longer.
func Truncate(ctx context.Context, f *Files, name string, size int64) error {
	p, err := f.writablePath(name)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	d, err := f.dirs.root()
	if err != nil {
		return err
	}
	file, err := openToTruncate(d, p)
	if errors.Is(err, syscall.EISDIR) {
		err = notRegular(fs.ModeDir)
	}
	if err != nil {
		return explain(name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return explain(name, err)
	case !info.Mode().IsRegular():
		return explain(name, notRegular(info.Mode().Type()))
	case size < 0 || size > info.Size():
		return fault.New(fault.Invalid, "%s has %d bytes and cannot be truncated to %d", fault.Quoted(name), info.Size(), size)
	}
	if err := file.Truncate(size); err != nil {
		return explain(name, err)
	}
	return nil
}
