package audit

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// Retention limits how much of a log is kept. Whole files are deleted, oldest first, but
// never the current one.
type Retention struct {
	Age time.Duration `key:"max_age" form:"age" default:"365d"` // of lines; 0 means no limit
	// of all files together; 0 means no limit
	Bytes int64 `key:"max_mb" form:"megabytes or never" range:"1 16777216" default:"4000"`
}

const (
	maxFileBytes = 64 << 20
	// filesKept is the number of files within the retention, so that each deletion removes
	// a small part.
	filesKept = 8
	// checkInterval is how often the retention is checked if no new file begins.
	checkInterval = time.Hour
)

// fileBytes returns the maximum size of a file.
func (k Retention) fileBytes() int64 {
	if k.Bytes == 0 {
		return maxFileBytes
	}
	return max(1, min(maxFileBytes, k.Bytes/filesKept))
}

// fileCache is the state of the files of a Log. It is guarded by turn.
type fileCache struct {
	checked time.Time            // when the retention was last checked
	current string               // the file that was written then
	first   map[string]firstLine // by file name
}

// firstLine is the position and time of the first line of a file.
type firstLine struct {
	seq  int64
	prev string
	time time.Time
}

// full reports whether the first line of a file is so old that a new file has to begin:
// only whole files can be deleted.
func (l *Log) full(s *signer, name string) bool {
	if l.cfg.Retention.Age == 0 {
		return false
	}
	f, ok := l.first(s, name)
	return ok && time.Since(f.time) > l.cfg.Retention.Age/filesKept
}

// first reads the first line of a file; false if its hash is wrong.
func (l *Log) first(s *signer, name string) (firstLine, bool) {
	if f, ok := l.files.first[name]; ok {
		return f, true
	}
	f, err := os.Open(filepath.Join(l.cfg.Dir, name))
	if err != nil {
		return firstLine{}, false
	}
	defer f.Close()
	line, _, err := next(newReader(f))
	body, _, ok := s.verify(line)
	if err != nil || !ok {
		return firstLine{}, false
	}
	seq, prev, ok := position(body)
	var r Record
	if json.Unmarshal(line, &r) != nil || !ok {
		return firstLine{}, false
	}
	if l.files.first == nil {
		l.files.first = map[string]firstLine{}
	}
	l.files.first[name] = firstLine{seq, string(prev), r.Time}
	return l.files.first[name], true
}

// retire deletes the files beyond the retention. A line on disk records the last deleted
// line before that, so that Verify can distinguish it from missing files. After an
// error it is tried again an hour later.
func (l *Log) retire(s *signer, e end) {
	if l.cfg.Retention == (Retention{}) || e.File == l.files.current && time.Since(l.files.checked) < checkInterval {
		return
	}
	l.files.checked, l.files.current = time.Now(), e.File
	old, through, err := l.expired(s, e.File)
	if err == nil && len(old) > 0 {
		note := waiting{line: Line{Kind: Recovery, Outcome: retired, Through: through.seq - 1, At: through.prev}, at: time.Now()}
		if _, err = l.put(s, e, []waiting{note}); err == nil {
			err = l.remove(old)
		}
	}
	if err != nil {
		l.cfg.Log.Error("old files of the audit log could not be deleted", "error", explain(err))
	}
}

// expired returns the files beyond the retention, and the first line after them. It stops
// before a file whose successor was changed.
func (l *Log) expired(s *signer, current string) (names []string, through firstLine, err error) {
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
		following, ok := l.first(s, files[i+1])
		if !ok {
			break
		}
		k := l.cfg.Retention
		if (k.Bytes == 0 || total <= k.Bytes) && (k.Age == 0 || time.Since(following.time) <= k.Age) {
			break
		}
		names, through = append(names, name), following
		total -= sizes[i]
	}
	return names, through, nil
}

// remove deletes files, oldest first, so that a crash leaves the end of the chain.
func (l *Log) remove(names []string) error {
	var errs []error
	for _, name := range names {
		delete(l.files.first, name)
		if err := os.Remove(filepath.Join(l.cfg.Dir, name)); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(append(errs, durable.SyncDir(l.cfg.Dir))...)
}
