package audit

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Snapshot is the log as of one moment. Its files are open, so that retention cannot delete them.
type Snapshot struct {
	Files []SnapshotFile // with the head, which is last
	open  []*os.File
}

// SnapshotFile is a file of a Snapshot.
type SnapshotFile struct {
	Name    string
	Content *io.SectionReader
}

// Snapshot returns the log with all lines that were written so far. Lines may be added at the same time.
func (l *Log) Snapshot() (*Snapshot, error) {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	unlock, err := l.acquireLock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	names, err := list(l.cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := new(Snapshot)
	for _, name := range append(names, filepath.Base(headPath(l.cfg.Dir))) {
		if err := s.add(l.cfg.Dir, name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, errors.Join(explain(err), s.Close())
		}
	}
	return s, nil
}

func (s *Snapshot) add(dir, name string) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	s.open = append(s.open, f)
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	content := io.NewSectionReader(f, 0, fi.Size())
	if name == filepath.Base(headPath(dir)) { // it is replaced in place by the next write
		b := make([]byte, fi.Size())
		if _, err := io.ReadFull(content, b); err != nil {
			return err
		}
		content = io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))
	}
	s.Files = append(s.Files, SnapshotFile{Name: name, Content: content})
	return nil
}

// Close closes the files.
func (s *Snapshot) Close() error {
	var errs []error
	for _, f := range s.open {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
