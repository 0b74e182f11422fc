package workspace

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// Prune removes the regular files in the directory name that did not change for age, and then the
// oldest until the rest have at most bytes. It ignores subdirectories. Zero means no limit. It
// does nothing if the directory is missing or is not a directory.
func (f *Files) Prune(ctx context.Context, name string, age time.Duration, bytes int64) error {
	if age == 0 && bytes == 0 {
		return nil
	}
	d, err := f.dirs.openDir(name)
	if isUnusable(err) {
		return nil
	}
	if err != nil {
		return explain(name, err)
	}
	defer d.Close()
	files, err := regularFiles(ctx, d)
	if err != nil {
		return explain(name, err)
	}
	slices.SortFunc(files, func(a, b named) int { return b.changed.Compare(a.changed) })
	var errs []error
	var kept int64
	for _, e := range files {
		old := age > 0 && time.Since(e.changed) > age
		if !old && (bytes == 0 || kept+e.blocks <= bytes) {
			kept += e.blocks
			continue
		}
		if err := d.remove(e.name, false); err != nil && !isNotExist(err) {
			errs = append(errs, explain(name, err))
		}
	}
	return errors.Join(errs...)
}

type named struct {
	entry
	name string
}

// regularFiles lists the regular files in d.
func regularFiles(ctx context.Context, d *dir) (files []named, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		names, err := d.names(1024)
		for _, name := range names {
			if e, err := d.stat(name); err == nil && e.mode.IsRegular() {
				files = append(files, named{e, name})
			}
		}
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
