package stream

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// entry is one file of a directory.
type entry struct {
	path  string
	bytes int64
	time  time.Time // of the last answer in it
}

// list returns the files of a directory, oldest first. A missing directory has none.
func list(dir string) ([]entry, error) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, n := range names {
		if fi, err := n.Info(); err == nil && fi.Mode().IsRegular() { // others were deleted in between
			all = append(all, entry{filepath.Join(dir, n.Name()), fi.Size(), fi.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return a.time.Compare(b.time) })
	return all, nil
}

// reserve makes room for more bytes: if the limit would be exceeded, it deletes expired files,
// and then the oldest until the rest has three quarters of the limit, so that not every
// following answer deletes one. The caller holds mu.
func (s *Store) reserve(more int64) error {
	if s.bytes >= 0 && s.bytes+more <= s.cfg.MaxBytes {
		s.bytes += more
		return nil
	}
	all, err := list(s.cfg.Dir)
	if err != nil {
		return err
	}
	s.bytes = more
	for _, e := range all {
		s.bytes += e.bytes
	}
	expired := s.cfg.Now().Add(-s.cfg.Keep)
	full := s.bytes > s.cfg.MaxBytes
	for _, e := range all {
		if e.time.After(expired) && (!full || s.bytes <= s.cfg.MaxBytes*3/4) {
			break
		}
		if err := remove(e.path); err != nil {
			return err
		}
		s.bytes -= e.bytes
	}
	return nil
}

func remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sweep deletes the files of a directory whose last answer has expired. keep is as
// Config.Keep, of all Stores of the directory.
func Sweep(dir string, keep time.Duration) error {
	if keep == 0 {
		keep = Config{}.withDefaults().Keep
	}
	all, err := list(dir)
	errs := []error{err}
	expired := time.Now().Add(-keep)
	for _, e := range all {
		if e.time.Before(expired) {
			errs = append(errs, remove(e.path))
		}
	}
	return errors.Join(errs...)
}
