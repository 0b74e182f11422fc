package workspace

import (
	"context"
	"io"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// RemoveAll empties the workspace; its directory stays.
func (f *Files) RemoveAll(ctx context.Context) error {
	start, err := f.dirs.root()
	if err != nil {
		return err
	}
	for range 10 { // running code may add entries concurrently
		w := walk{start: start, need: 0o700}
		var last error
		w.file = func(d *dir, name string, _ entry) error {
			if err := d.remove(name, false); err != nil && !isNotExist(err) {
				last = err
			}
			return nil
		}
		w.leave = func(d *dir, name string) {
			if err := d.remove(name, true); err != nil && !isNotExist(err) {
				last = err
			}
		}
		if err := w.run(ctx); err != nil {
			return err
		}
		if last == nil && !w.missed {
			return nil
		}
	}
	return fault.New(fault.Unavailable, "empty the workspace: an entry cannot be removed or is being written")
}

// CopySegment writes the first bytes of a file as an archive does.
func CopySegment(to io.Writer, file io.ReaderAt, size int64) (unread, err error) {
	return copySegment(to, file, segment{0, size})
}
