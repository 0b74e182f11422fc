package audit

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// Keep says what of a log is kept. Whole files are deleted, oldest first, and never
// the one that is written.
type Keep struct {
	Age   time.Duration // of lines; 0 means for ever
	Bytes int64         // of all files together; 0 means all
}

const (
	fileBytes = 64 << 20
	// pieces is how many files there are of what is kept, so that what is deleted at a
	// time is a small part of it.
	pieces = 8
	// lookEvery is how often files are looked at that may be old enough.
	lookEvery = time.Hour
)

// file is how large one may become.
func (k Keep) file() int64 {
	if k.Bytes == 0 {
		return fileBytes
	}
	return max(1, min(fileBytes, k.Bytes/pieces))
}

// looked is what a Log remembers of its files, which only who has the turn reads.
type looked struct {
	at    time.Time            // when it was last seen which may be deleted
	last  string               // file that was written then
	first map[string]firstLine // by file
}

// firstLine is what the first line of a file says.
type firstLine struct {
	seq  int64
	prev string
	time time.Time
}

// full reports whether a file has lines so old that others are to be in the next:
// only whole files can be deleted.
func (l *Log) full(s *sealer, name string) bool {
	if l.cfg.Keep.Age == 0 {
		return false
	}
	f, ok := l.first(s, name)
	return ok && time.Since(f.time) > l.cfg.Keep.Age/pieces
}

// first reads the first line of a file; false if it is none that was written.
func (l *Log) first(s *sealer, name string) (firstLine, bool) {
	if f, ok := l.looked.first[name]; ok {
		return f, true
	}
	f, err := os.Open(filepath.Join(l.cfg.Dir, name))
	if err != nil {
		return firstLine{}, false
	}
	defer f.Close()
	line, _, err := next(newReader(f))
	body, _, ok := s.open(line)
	if err != nil || !ok {
		return firstLine{}, false
	}
	seq, prev, ok := place(body)
	var r Record
	if json.Unmarshal(line, &r) != nil || !ok {
		return firstLine{}, false
	}
	if l.looked.first == nil {
		l.looked.first = map[string]firstLine{}
	}
	l.looked.first[name] = firstLine{seq, string(prev), r.Time}
	return l.looked.first[name], true
}

// retire deletes files that are not to be kept. Before that, and on disk, is a line
// that says up to where: so Verify can tell it from files that somebody took away.
// It is tried again an hour later, whatever went wrong.
func (l *Log) retire(s *sealer, e end) {
	if l.cfg.Keep == (Keep{}) || e.File == l.looked.last && time.Since(l.looked.at) < lookEvery {
		return
	}
	l.looked.at, l.looked.last = time.Now(), e.File
	old, through, err := l.old(s, e.File)
	if err == nil && len(old) > 0 {
		note := waiting{line: Line{Kind: Recovery, Outcome: retired, Through: through.seq - 1, At: through.prev}, at: time.Now()}
		if _, err = l.put(s, e, []waiting{note}); err == nil {
			err = l.remove(old)
		}
	}
	if err != nil {
		l.cfg.Log.Error("old files of the audit log are not deleted", "error", explain(err))
	}
}

// old returns the files that are not to be kept, and the first line behind them.
// Behind one that was changed nothing is known, and nothing is deleted.
func (l *Log) old(s *sealer, current string) (names []string, through firstLine, err error) {
	files, err := list(l.cfg.Dir)
	if err != nil {
		return nil, through, err
	}
	total := int64(0)
	sizes := make([]int64, len(files))
	for i, name := range files {
		info, err := os.Stat(filepath.Join(l.cfg.Dir, name))
		if err != nil {
			return nil, through, err
		}
		sizes[i] = info.Size()
		total += sizes[i]
	}
	for i, name := range files {
		if name >= current {
			break
		}
		behind, ok := l.first(s, files[i+1])
		if !ok {
			break
		}
		k := l.cfg.Keep
		if (k.Bytes == 0 || total <= k.Bytes) && (k.Age == 0 || time.Since(behind.time) <= k.Age) {
			break
		}
		names, through = append(names, name), behind
		total -= sizes[i]
	}
	return names, through, nil
}

// remove deletes files, oldest first: what a crash leaves is the end of the chain.
func (l *Log) remove(names []string) error {
	var errs []error
	for _, name := range names {
		delete(l.looked.first, name)
		if err := os.Remove(filepath.Join(l.cfg.Dir, name)); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(append(errs, durable.SyncDir(l.cfg.Dir))...)
}
