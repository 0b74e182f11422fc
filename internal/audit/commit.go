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

// end is the end of the chain on disk, with the repairs that are needed there.
type end struct {
	head
	torn  int64  // bytes of an incomplete line after Offset
	wrong string // headMissing or headChanged, if the head is
}

// commit writes lines while it holds the lock of the directory. It keeps no state
// between two commits: another process may have written, or crashed while writing.
func (l *Log) commit(all []waiting, lost int64) error {
	unlock, err := l.acquireLock()
	if err != nil {
		return err
	}
	defer unlock()
	s := newSigner(l.cfg.Key)
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
	if e, err = l.put(s, e, append(e.recoveryLines(lost), all...)); err != nil {
		return explain(err)
	}
	l.retire(s, e)
	return nil
}

// acquireLock waits until no other process writes. It creates a directory again that was
// moved away.
func (l *Log) acquireLock() (unlock func(), err error) {
	if err := os.MkdirAll(l.cfg.Dir, 0o700); err != nil {
		return nil, explain(err)
	}
	wait, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	if ok, err := l.lock.TryLockContext(wait, time.Millisecond); !ok {
		if wait.Err() != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "another process locked the audit log for more than %s", lockWait).
				WithHint("find the Sandpiper process of the same data directory that is stopped or hangs")
		}
		return nil, explain(err)
	}
	return func() { _ = l.lock.Unlock() }, nil
}

// recoveryLines returns the lines that record repairs and dropped lines.
func (e end) recoveryLines(lost int64) (all []waiting) {
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

// encode encodes lines and returns the end of the chain after them.
func (e end) encode(s *signer, all []waiting) (text []byte, last head, err error) {
	last = e.head
	for _, w := range all {
		for _, line := range w.line.split() {
			last.Seq++
			body, err := json.Marshal(Record{Seq: last.Seq, Time: w.at.UTC().Truncate(time.Microsecond), Line: line, Prev: last.At})
			if err != nil {
				return nil, last, err
			}
			signed := s.sign(body[:len(body)-1])
			last.At = string(s.hex[:])
			text = append(append(text, signed...), '\n')
		}
	}
	return text, last, nil
}

// put writes lines to disk, and then the head. It returns the new end of the chain.
func (l *Log) put(s *signer, e end, all []waiting) (end, error) {
	text, last, err := e.encode(s, all)
	if err != nil {
		return e, err
	}
	last.File, last.Offset = e.File, e.Offset
	if e.File == "" || e.Offset > 0 && (e.Offset+int64(len(text)) > l.cfg.MaxBytes || l.full(s, e.File)) {
		last.File, last.Offset = fileName(max(e.Seq+1, firstOf(e.File)+1)), 0
	}
	if e.torn > 0 {
		if err := truncate(filepath.Join(l.cfg.Dir, e.File), e.Offset); err != nil {
			return e, err
		}
	}
	if err := l.add(last.File, last.Offset, text); err != nil {
		return e, err
	}
	last.Offset += int64(len(text))
	return end{head: last}, writeHead(s, l.cfg.Dir, last, false)
}

// add writes text to disk at the end of a file. After an error the file is unchanged.
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

func truncate(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(at), f.Sync(), f.Close())
}

// findEnd returns the end of the chain. The head contains it, unless a process crashed
// before it wrote the head: then more lines follow. If lines before the head are missing,
// the chain continues from the head, so that Verify still finds them missing.
func findEnd(s *signer, dir string) (end, error) {
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

// read reads a file from the offset to its end, whatever it contains.
func (e *end) read(s *signer, path string) error {
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
	if e.Offset == info.Size() { // the usual case
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
		e.advance(s, line)
	}
}

// advance moves the end to a line if it is the next of the chain; without a valid head, if
// it has the form of one.
func (e *end) advance(s *signer, line []byte) {
	body, hash, ok := splitHash(line)
	if !ok {
		return
	}
	seq, prev, ok := position(body)
	if !ok {
		return
	}
	if e.wrong == "" {
		_, _, ok = s.verify(line)
		ok = ok && seq == e.Seq+1 && string(prev) == e.At
	} else {
		_, err := hex.DecodeString(string(hash))
		ok = err == nil && seq < maxSeq
	}
	if ok {
		e.Seq, e.At = seq, string(hash)
	}
}
