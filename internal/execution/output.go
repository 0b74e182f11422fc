package execution

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// output receives what code prints. It holds the beginning, for the reply; once
// that is full, everything from the first item on goes to a file beside it. It
// is called by one goroutine at a time, as sandbox.Host promises.
type output struct {
	room  int   // bytes of JSON left for the reply
	left  int64 // bytes until the execution is ended
	open  func() (file, error)
	over  context.CancelCauseFunc
	head  func(text string, n int) string // the beginning of a text
	items []string                        // for the reply
	cut   bool                            // items is only the beginning
	count int
	bytes int64
	file  file  // nil until cut
	err   error // why there is no file
}

// file is a new file in the workspace that exists under its name only once it
// is committed, whole.
type file interface {
	io.Writer
	Commit() error
	Abort()
}

// add takes one item.
func (o *output) add(p []byte) error {
	o.left -= int64(len(p)) + 1
	if o.left < 0 {
		o.over(errOutput)
		return errOutput
	}
	o.count++
	o.bytes += int64(len(p)) + 1
	if o.cut {
		o.write(p)
		return nil
	}
	if o.keep(p) {
		return nil
	}
	o.spill()
	o.write(p)
	if len(o.items) == 0 { // a reply without any output would say nothing
		o.items = append(o.items, o.head(string(p), o.room/6)+"…")
	}
	return nil
}

// keep holds the item for the reply if there is room for it.
func (o *output) keep(p []byte) bool {
	if len(p) > o.room {
		return false
	}
	s := strings.ToValidUTF8(string(p), "\ufffd")
	cost := encodedLen(s)
	if cost > o.room {
		return false
	}
	o.room -= cost
	o.items = append(o.items, s)
	return true
}

// spill opens the file and writes what was held so far.
func (o *output) spill() {
	o.cut = true
	if o.file, o.err = o.open(); o.err != nil {
		o.file = nil
		return
	}
	for _, s := range o.items {
		o.write([]byte(s))
	}
}

// write appends one item to the file. When the file cannot take it the file is
// given up, and the code goes on: what it prints is not what it is for.
func (o *output) write(p []byte) {
	if o.file == nil {
		return
	}
	if _, err := o.file.Write(append(p[:len(p):len(p)], '\n')); err != nil {
		o.file.Abort()
		o.file, o.err = nil, err
	}
}

// finish commits the file, if there is one, and says where the output is.
func (o *output) finish(r *Result, path string) {
	r.Output = o.items
	if r.Output == nil {
		r.Output = []string{}
	}
	if !o.cut {
		return
	}
	if o.file != nil {
		o.err = o.file.Commit()
	}
	r.OutputFile = &OutputFile{Items: o.count, Bytes: o.bytes}
	if o.err != nil {
		r.OutputFile.Note = "only the beginning is shown; the rest could not be kept: " + fault.Message(o.err)
		return
	}
	r.OutputFile.Path = path
	r.OutputFile.Note = fmt.Sprintf("only the beginning is shown; read_file(%q).splitlines()[-20:] has the end", inWorkspace(path))
}

// drop forgets all of it.
func (o *output) drop() {
	if o.file != nil {
		o.file.Abort()
	}
	o.file, o.items = nil, nil
}

// encodedLen is how many bytes s takes in a JSON list, near enough.
func encodedLen(s string) int {
	n := len(s) + 3 // quotes and comma
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r':
			n++
		case c < 0x20:
			n += 5
		}
	}
	return n
}

// inWorkspace is path as the files tools name it.
func inWorkspace(path string) string { return strings.TrimPrefix(path, "/workspace/") }
