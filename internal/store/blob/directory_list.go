package blob

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// directoryList lists the files of a tree in the order of their keys.
type directoryList struct {
	d             *directory
	ctx           context.Context
	prefix, after string
	yield         func(Object) bool
}

// visit lists a directory, "" for the root, and reports whether the list goes on. One that does not exist is empty. Each
// directory that has a key of the list is read at once: its objects are as complete as the system's list of files.
func (l *directoryList) visit(dir string) (bool, error) {
	if l.ctx.Err() != nil {
		return false, context.Cause(l.ctx)
	}
	entries, err := os.ReadDir(filepath.Join(l.d.root, filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(sortKey(a), sortKey(b)) })
	for _, e := range entries {
		key := path.Join(dir, e.Name())
		switch {
		case e.Name() == unfinished:
		case e.IsDir():
			below := key + "/"
			if !strings.HasPrefix(below, l.prefix) && !strings.HasPrefix(l.prefix, below) || below < l.after && !strings.HasPrefix(l.after,
				below) {
				continue
			}
			if more, err := l.visit(key); err != nil || !more {
				return false, err
			}
		case strings.HasPrefix(key, l.prefix) && key > l.after:
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // deleted meanwhile
			} else if err != nil {
				return false, err
			}
			if !l.yield(Object{key, info.Size(), info.ModTime()}) {
				return false, nil
			}
		}
	}
	return true, nil
}

// sortKey orders directories as the keys below them.
func sortKey(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}
