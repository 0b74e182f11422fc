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

// Report is the result of Verify.
type Report struct {
	Lines   int64    `json:"lines"`   // verified, up to the problem
	Files   int      `json:"files"`   // likewise
	Seq     int64    `json:"seq"`     // of the last good line, and
	Hash    string   `json:"hash"`    // its hash: stored elsewhere, they reveal that an older state was restored
	Torn    int64    `json:"torn"`    // bytes of an incomplete line at the end, left by a crash or just being written
	Retired int64    `json:"retired"` // lines before the first, which the log deleted by its Retention
	Problem *Problem `json:"problem,omitempty"`
}

// ProblemKind is a kind of Problem.
type ProblemKind string

const (
	Changed   ProblemKind = "changed"   // the bytes differ from those written, or the key differs
	Dropped   ProblemKind = "dropped"   // lines are missing before this one
	Reordered ProblemKind = "reordered" // it is too early, too late or repeated
	Replaced  ProblemKind = "replaced"  // written with the key, but not after the line before it
	Truncated ProblemKind = "truncated" // lines are missing at the end
	BadHead   ProblemKind = "head"      // the file head is missing or changed, or was when the line was written
)

// Problem is the first inconsistency of a log.
type Problem struct {
	File string      `json:"file"`
	Line int64       `json:"line"` // in the file, from 1
	Seq  int64       `json:"seq"`  // expected for the line
	Kind ProblemKind `json:"what"`
	Text string      `json:"text"` // a sentence
}

// Verify reads a whole log and checks every line against its hash, the line before and
// the head. It may run while processes write. An error means that the log could not be read.
func Verify(ctx context.Context, cfg Config) (r Report, err error) {
	if cfg.Dir == "" || len(cfg.Key) != keySize {
		return Report{}, fmt.Errorf("audit: Config needs a Dir and a Key of %d bytes", keySize)
	}
	for range 5 { // a listed file may have been deleted by the retention
		if r, err = verify(ctx, cfg); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return r, err
}

func verify(ctx context.Context, cfg Config) (Report, error) {
	v := verifier{signer: newSigner(cfg.Key), Report: Report{Hash: noHash}}
	// The head is read first: the lines before it are in the files by then.
	h, wrong, err := readHead(v.signer, cfg.Dir)
	if err != nil {
		return Report{}, explain(err)
	}
	files, err := list(cfg.Dir)
	if err != nil {
		return Report{}, err
	}
	if wrong == headMissing && len(files) > 0 { // the first line may just have been written
		if h, wrong, err = readHead(v.signer, cfg.Dir); err != nil {
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

// verifier reads the files of a log in order.
type verifier struct {
	*signer
	Report
	head head
	rest []string // files after the current one
	name string   // of the current file
	line int64    // in it
}

func (v *verifier) problem(kind ProblemKind, format string, args ...any) {
	v.Problem = &Problem{v.name, v.line, v.Seq + 1, kind, fmt.Sprintf(format, args...)}
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

// end handles an incomplete last line: a crash leaves one only in the last file.
func (v *verifier) end(n int64) {
	if n > 0 && len(v.rest) > 0 {
		v.line++
		v.problem(Changed, "the last line is incomplete, but another file follows")
		return
	}
	v.Torn = n
}

// check checks one line. It returns the number of the line that is missing before it.
func (v *verifier) check(line []byte) (wanted int64) {
	body, hash, ok := v.verify(line)
	if !ok {
		v.problem(Changed, "the line was changed, or was written with another key")
		return 0
	}
	seq, prev, ok := position(body)
	switch {
	case !ok:
		v.problem(Changed, "this is not a line of an audit log")
	case seq > v.Seq+1:
		return v.Seq + 1
	case seq < v.Seq+1:
		v.problem(Reordered, "line number %d is repeated or too late", seq)
	case string(prev) != v.Hash:
		v.problem(Replaced, "the line does not follow the one before it: one of them is from another state of the log")
	case seq == v.head.Seq && string(hash) != v.head.At:
		v.problem(Replaced, "the line differs from the one in the file head: it is from another state of the log")
	case bytes.Contains(body, []byte(`,"kind":"recovery",`)) && bytes.Contains(body, []byte(`,"outcome":"head_`)):
		v.problem(BadHead, "the file head was missing or changed when this line was written: lines before it may have been truncated")
	default:
		v.Seq, v.Hash = seq, string(hash)
	}
	return 0
}

// start skips the lines that the log deleted itself, if a line records that.
func (v *verifier) start(dir string, line []byte) (err error) {
	before := firstOf(v.name) - 1
	if before == 0 {
		return nil
	}
	retired, err := lastRetired(dir, v.name, Line{})
	for i := 0; i < len(v.rest) && err == nil; i++ {
		retired, err = lastRetired(dir, v.rest[i], retired)
	}
	switch body, _, ok := v.verify(line); {
	case before > retired.Through: // or no line records it
	case before == retired.Through:
		v.Seq, v.Hash, v.Retired = before, retired.At, before
	case ok: // the file was about to be deleted too
		_, prev, _ := position(body)
		v.Seq, v.Hash, v.Retired = before, string(prev), before
	}
	return err
}

// lastRetired returns the line of a file with the highest Through, or last if that is
// higher. Its hash is checked when the line is verified.
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

// missing reports whether a missing line is dropped or further on.
func (v *verifier) missing(r *bufio.Reader, dir string, wanted int64) error {
	found, err := v.has(r, wanted)
	for i := 0; i < len(v.rest) && !found && err == nil; i++ {
		found, err = v.hasFile(filepath.Join(dir, v.rest[i]), wanted)
	}
	if err != nil {
		return explain(err)
	}
	if found {
		v.problem(Reordered, "line number %d is expected here, but is further on", wanted)
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
		if body, _, ok := splitHash(line); ok {
			if at, _, ok := position(body); ok && at == seq {
				return true, nil
			}
		}
	}
}

// atEnd compares the last line with the head.
func (v *verifier) atEnd(wrong string) {
	v.line++
	switch {
	case wrong == headMissing && v.Files > 0:
		v.problem(BadHead, "the file head is missing: lines at the end may have been truncated")
	case wrong == headChanged:
		v.problem(BadHead, "the file head was changed: lines at the end may have been truncated")
	case v.head.Seq > v.Seq:
		v.problem(Truncated, "lines are missing at the end, up to number %d", v.head.Seq)
	}
}
