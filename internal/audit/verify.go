package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Report is what Verify found.
type Report struct {
	Lines   int64    `json:"lines"`   // looked at, up to the problem
	Files   int      `json:"files"`   // likewise
	Seq     int64    `json:"seq"`     // of the last good line, and
	Hash    string   `json:"hash"`    // its hash: kept elsewhere, they tell whether an older state is put back
	Torn    int64    `json:"torn"`    // bytes at the end that a crash left, or a line that is just being written
	Retired int64    `json:"retired"` // lines before the first, which were deleted as the log was told to
	Problem *Problem `json:"problem,omitempty"`
}

// What is wrong with a log.
type What string

const (
	Changed   What = "changed"   // the bytes are not those that were written, or the key is another
	Dropped   What = "dropped"   // lines are missing before this one
	Reordered What = "reordered" // it comes too early, too late or again
	Replaced  What = "replaced"  // written with the key, but not behind the line before it
	Truncated What = "truncated" // lines are missing at the end
	Headless  What = "head"      // what says where the log ends is missing or changed, or was when the line was written
)

// Problem is the first thing that is wrong with a log.
type Problem struct {
	File string `json:"file"`
	Line int64  `json:"line"` // in the file, from 1
	Seq  int64  `json:"seq"`  // that the line should have
	What What   `json:"what"`
	Text string `json:"text"` // a sentence
}

// Verify reads a whole log and holds every line against its hash, the line before
// and the head. It may run while others write. An error says that it could not be read.
func Verify(ctx context.Context, cfg Config) (r Report, err error) {
	if cfg.Dir == "" || len(cfg.Key) != keySize {
		return Report{}, fmt.Errorf("audit: Config needs a Dir and a Key of %d bytes", keySize)
	}
	for range 5 { // a file that was there a moment ago may have been retired
		if r, err = verify(ctx, cfg); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return r, err
}

func verify(ctx context.Context, cfg Config) (Report, error) {
	v := verifier{sealer: newSealer(cfg.Key), Report: Report{Hash: noHash}}
	// First, since it only moves on: what it knows is in the files by now.
	h, wrong, err := readHead(v.sealer, cfg.Dir)
	if err != nil {
		return Report{}, explain(err)
	}
	files, err := list(cfg.Dir)
	if err != nil {
		return Report{}, err
	}
	if wrong == headMissing && len(files) > 0 { // unless the first line was just written
		if h, wrong, err = readHead(v.sealer, cfg.Dir); err != nil {
			return Report{}, explain(err)
		}
	}
	v.head, v.rest = h, files
	for len(v.rest) > 0 && v.Problem == nil {
		name := v.rest[0]
		v.rest = v.rest[1:]
		if err := v.file(ctx, cfg.Dir, name); err != nil {
			return v.Report, err
		}
	}
	if v.Problem == nil {
		v.atEnd(wrong)
	}
	return v.Report, nil
}

// verifier goes through the files of a log.
type verifier struct {
	*sealer
	Report
	head head
	rest []string // files behind the one it reads
	name string   // of that
	line int64    // in it
}

func (v *verifier) problem(what What, format string, args ...any) {
	v.Problem = &Problem{v.name, v.line, v.Seq + 1, what, fmt.Sprintf(format, args...)}
}

func (v *verifier) file(ctx context.Context, dir, name string) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return explain(err)
	}
	defer f.Close()
	v.name, v.line = name, 0
	v.Files++
	for r := newReader(f); v.Problem == nil; {
		line, n, err := next(r)
		if errors.Is(err, io.EOF) {
			v.end(n)
			return nil
		}
		if err != nil {
			return explain(err)
		}
		if v.line++; v.line%1000 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if v.Lines++; v.Lines == 1 {
			if err := v.start(dir, line); err != nil {
				return explain(err)
			}
		}
		if wanted := v.check(line); wanted != 0 {
			return v.missing(r, dir, wanted)
		}
	}
	return nil
}

// end judges what has no end of line: it may be half a line only where a crash
// leaves one.
func (v *verifier) end(n int64) {
	if n > 0 && len(v.rest) > 0 {
		v.line++
		v.problem(Changed, "the last line has no end, though another file follows")
		return
	}
	v.Torn = n
}

// check judges one line. It returns the number of one that should have come first.
func (v *verifier) check(line []byte) (wanted int64) {
	body, hash, ok := v.open(line)
	if !ok {
		v.problem(Changed, "the line is not what was written, or it was written with another key than the one there is")
		return 0
	}
	seq, prev, ok := place(body)
	switch {
	case !ok:
		v.problem(Changed, "this is no line of an audit log")
	case seq > v.Seq+1:
		return v.Seq + 1
	case seq < v.Seq+1:
		v.problem(Reordered, "line number %d comes again or too late", seq)
	case string(prev) != v.Hash:
		v.problem(Replaced, "the line does not follow the one before it: one of them is of another state of the log")
	case seq == v.head.Seq && string(hash) != v.head.At:
		v.problem(Replaced, "the line is another than the one that the file head knows: it is of another state of the log")
	case bytes.Contains(body, []byte(`,"kind":"recovery",`)) && bytes.Contains(body, []byte(`,"outcome":"head_`)):
		v.problem(Headless, "the file head was missing or changed when this line was written: lines before it may have been cut off")
	default:
		v.Seq, v.Hash = seq, string(hash)
	}
	return 0
}

// start begins behind lines that the log deleted itself, if a line of it says so.
func (v *verifier) start(dir string, line []byte) (err error) {
	before := firstOf(v.name) - 1
	if before == 0 {
		return nil
	}
	said, err := lastRetired(dir, v.name, Line{})
	for i := 0; i < len(v.rest) && err == nil; i++ {
		said, err = lastRetired(dir, v.rest[i], said)
	}
	switch body, _, ok := v.open(line); {
	case before > said.Through: // or nothing says so
	case before == said.Through:
		v.Seq, v.Hash, v.Retired = before, said.At, before
	case ok: // it was about to be deleted too
		_, prev, _ := place(body)
		v.Seq, v.Hash, v.Retired = before, string(prev), before
	}
	return err
}

// lastRetired is the line of a file that says of the most lines that they may be
// deleted, if that are more than last says. Whether it is what was written is seen
// when it is read again.
func lastRetired(dir, name string, last Line) (Line, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return last, err
	}
	defer f.Close()
	for r := newReader(f); ; {
		line, _, err := next(r)
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		if bytes.Contains(line, []byte(`,"kind":"recovery","outcome":"retired",`)) {
			if more := record(line).Line; more.Through > last.Through {
				last = more
			}
		}
	}
}

// missing says whether a line is gone or somewhere behind.
func (v *verifier) missing(r *bufio.Reader, dir string, wanted int64) error {
	found, err := v.has(r, wanted)
	for i := 0; i < len(v.rest) && !found && err == nil; i++ {
		found, err = v.hasFile(filepath.Join(dir, v.rest[i]), wanted)
	}
	if err != nil {
		return explain(err)
	}
	if found {
		v.problem(Reordered, "line number %d should be here, and is further behind", wanted)
	} else {
		v.problem(Dropped, "line number %d is missing, perhaps with others", wanted)
	}
	return nil
}

func (v *verifier) hasFile(path string, seq int64) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return v.has(newReader(f), seq)
}

func (v *verifier) has(r *bufio.Reader, seq int64) (bool, error) {
	for {
		line, _, err := next(r)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if body, _, ok := parts(line); ok {
			if at, _, ok := place(body); ok && at == seq {
				return true, nil
			}
		}
	}
}

// atEnd holds the last line against the head.
func (v *verifier) atEnd(wrong string) {
	v.line++
	switch {
	case wrong == headMissing && v.Files > 0:
		v.problem(Headless, "the file head is missing: lines at the end may have been cut off")
	case wrong == headChanged:
		v.problem(Headless, "the file head is not what was written: lines at the end may have been cut off")
	case v.head.Seq > v.Seq:
		v.problem(Truncated, "lines are missing at the end, up to number %d", v.head.Seq)
	}
}
