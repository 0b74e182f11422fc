package audit

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// end is where the chain ends on disk, and what is to be done there.
type end struct {
	head
	torn  int64  // bytes behind Offset that are half a line
	wrong string // with the head, if anything
}

// commit writes lines, as the only one of all processes. Nothing is remembered
// between two commits: another process may have written, or died while it did.
func (l *Log) commit(all []waiting, lost int64) error {
	unlock, err := l.only()
	if err != nil {
		return err
	}
	defer unlock()
	s := newSealer(l.cfg.Key)
	e, err := findEnd(s, l.cfg.Dir)
	if err != nil {
		return explain(err)
	}
	if e.File == "" && e.wrong == headMissing { // a new log
		if err := writeHead(s, l.cfg.Dir, e.head, true); err != nil {
			return explain(err)
		}
		e.wrong = ""
	}
	if e, err = l.put(s, e, append(e.notes(lost), all...)); err != nil {
		return explain(err)
	}
	l.retire(s, e)
	return nil
}

// only waits for other processes to end what they write. A directory that was
// moved away while we ran is made again.
func (l *Log) only() (unlock func(), err error) {
	if err := os.MkdirAll(l.cfg.Dir, 0o700); err != nil {
		return nil, explain(err)
	}
	wait, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	if ok, err := l.lock.TryLockContext(wait, time.Millisecond); !ok {
		if wait.Err() != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "another process kept the audit log for more than %s", lockWait).
				WithHint("look for a Sandpiper of the same data directory that is stopped or hangs")
		}
		return nil, explain(err)
	}
	return func() { _ = l.lock.Unlock() }, nil
}

// notes are the lines that the log has to write for itself.
func (e end) notes(lost int64) (all []waiting) {
	note := func(outcome string, lost int64) {
		all = append(all, waiting{line: Line{Kind: Recovery, Outcome: outcome, Lost: lost}, at: time.Now()})
	}
	if e.wrong != "" {
		note(e.wrong, 0)
	}
	if e.torn > 0 {
		note(torn, 0)
	}
	if lost > 0 {
		note(gap, lost)
	}
	return all
}

// encode makes the text of lines and returns where the chain then ends.
func (e end) encode(s *sealer, all []waiting) (text []byte, last head, err error) {
	last = e.head
	for _, w := range all {
		for _, line := range w.line.split() {
			last.Seq++
			body, err := json.Marshal(Record{Seq: last.Seq, Time: w.at.UTC().Truncate(time.Microsecond), Line: line, Prev: last.At})
			if err != nil {
				return nil, last, err
			}
			sealed := s.seal(body[:len(body)-1])
			last.At = string(s.hex[:])
			text = append(append(text, sealed...), '\n')
		}
	}
	return text, last, nil
}

// put has lines on disk, and then the head. It returns where the chain then ends.
func (l *Log) put(s *sealer, e end, all []waiting) (end, error) {
	text, last, err := e.encode(s, all)
	if err != nil {
		return e, err
	}
	last.File, last.Offset = e.File, e.Offset
	if e.File == "" || e.Offset > 0 && (e.Offset+int64(len(text)) > l.cfg.MaxBytes || l.full(s, e.File)) {
		last.File, last.Offset = fileName(max(e.Seq+1, firstOf(e.File)+1)), 0
	}
	if e.torn > 0 {
		if err := cut(filepath.Join(l.cfg.Dir, e.File), e.Offset); err != nil {
			return e, err
		}
	}
	if err := l.add(last.File, last.Offset, text); err != nil {
		return e, err
	}
	last.Offset += int64(len(text))
	return end{head: last}, writeHead(s, l.cfg.Dir, last, false)
}

// add has text on disk at the end of a file, or leaves that as it was.
func (l *Log) add(name string, at int64, text []byte) error {
	path := filepath.Join(l.cfg.Dir, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, at)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		err = errors.Join(err, f.Truncate(at))
	}
	if err = errors.Join(err, f.Close()); err == nil && at == 0 {
		err = durable.SyncDir(l.cfg.Dir)
	}
	return err
}

func cut(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(at), f.Sync(), f.Close())
}

// findEnd reads where the chain ends. The head says so, unless a process died
// before it wrote it: then there are more lines. If lines that the head knows are
// not there, the chain goes on from the head all the same, so that they stay missing.
func findEnd(s *sealer, dir string) (end, error) {
	files, err := list(dir)
	if err != nil {
		return end{}, err
	}
	h, wrong, err := readHead(s, dir)
	if err != nil {
		return end{}, err
	}
	e := end{head: h, wrong: wrong}
	if !slices.Contains(files, h.File) {
		e.File, e.Offset = "", 0
	}
	if wrong != "" {
		e.head = head{At: noHash}
		if n := len(files); n > 0 {
			e.File, e.Seq = files[n-1], firstOf(files[n-1])-1
		}
	}
	for _, name := range files {
		if name >= e.File {
			if err := e.read(s, filepath.Join(dir, name)); err != nil {
				return end{}, err
			}
		}
	}
	return e, nil
}

// read goes on in a file, and to its end whatever is there.
func (e *end) read(s *sealer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	if name != e.File || e.Offset > info.Size() {
		e.Offset = 0
	}
	e.File, e.torn = name, 0
	if e.Offset == info.Size() { // as it is if nobody died
		return nil
	}
	r := newReader(io.NewSectionReader(f, e.Offset, info.Size()-e.Offset))
	for {
		line, n, err := next(r)
		if errors.Is(err, io.EOF) {
			e.torn = n
			return nil
		}
		if err != nil {
			return err
		}
		e.Offset += n
		e.follow(s, line)
	}
}

// follow takes a line if it is the next of the chain; where no head says what
// comes next, any that looks like one.
func (e *end) follow(s *sealer, line []byte) {
	body, hash, ok := parts(line)
	if !ok {
		return
	}
	seq, prev, ok := place(body)
	if !ok {
		return
	}
	if e.wrong == "" {
		_, _, ok = s.open(line)
		ok = ok && seq == e.Seq+1 && string(prev) == e.At
	} else {
		_, err := hex.DecodeString(string(hash))
		ok = err == nil && seq < mostSeq
	}
	if ok {
		e.Seq, e.At = seq, string(hash)
	}
}
