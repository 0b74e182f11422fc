package reply

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Output receives what the code prints. It holds the beginning, for the reply; once
// that is full, all items from the first on are written to a file as well. As
// sandbox.Host promises, it is called by one goroutine at a time.
type Output struct {
	replyLeft int   // bytes of JSON left for the reply
	bytesLeft int64 // bytes until the output limit
	create    func() (file, error)
	path      string // of the file, as the code sees it
	cancel    context.CancelCauseFunc
	truncate  func(text string, n int) string // returns the beginning of a text
	items     []string                        // for the reply
	truncated bool                            // items contains only the beginning
	count     int
	bytes     int64
	file      file  // nil until truncated
	err       error // why there is no file
}

// file is a new file in the workspace, which appears under its name only when it is
// committed.
type file interface {
	io.Writer
	Commit(context.Context) error
	Abort()
}

// Items returns the beginning of the output.
func (o *Output) Items() []string { return o.items }

// Add adds one item.
func (o *Output) Add(p []byte) error {
	o.bytesLeft -= int64(len(p)) + 1
	if o.bytesLeft < 0 {
		o.cancel(ErrOutput)
		return ErrOutput
	}
	o.count++
	o.bytes += int64(len(p)) + 1
	if o.truncated {
		o.write(p)
		return nil
	}
	if o.addToReply(p) {
		return nil
	}
	o.spill()
	o.write(p)
	if len(o.items) == 0 { // show at least the beginning
		o.items = append(o.items, o.truncate(string(p), o.replyLeft/6)+"…")
	}
	return nil
}

// addToReply adds the item to the reply, if it fits.
func (o *Output) addToReply(p []byte) bool {
	if len(p) > o.replyLeft {
		return false
	}
	s := strings.ToValidUTF8(string(p), "\ufffd")
	cost := encodedLen(s)
	if cost > o.replyLeft {
		return false
	}
	o.replyLeft -= cost
	o.items = append(o.items, s)
	return true
}

// spill creates the file and writes the items so far.
func (o *Output) spill() {
	o.truncated = true
	if o.file, o.err = o.create(); o.err != nil {
		o.file = nil
		return
	}
	for _, s := range o.items {
		o.write([]byte(s))
	}
}

// write appends one item to the file. On a write error the file is discarded and the
// code continues: lost output is no reason to end it.
func (o *Output) write(p []byte) {
	if o.file == nil {
		return
	}
	if _, err := o.file.Write(append(p[:len(p):len(p)], '\n')); err != nil {
		o.file.Abort()
		o.file, o.err = nil, err
	}
}

// Finish commits the file, if there is one, and fills the result's output.
func (o *Output) Finish(ctx context.Context, r *Result) {
	r.Output = o.items
	if r.Output == nil {
		r.Output = []string{}
	}
	if !o.truncated {
		return
	}
	if o.file != nil {
		o.err = o.file.Commit(ctx)
	}
	r.OutputFile = &OutputFile{Items: o.count, Bytes: o.bytes}
	if o.err != nil {
		r.OutputFile.Note = "only the beginning is shown; the rest could not be stored: " + fault.Message(o.err)
		return
	}
	r.OutputFile.Path = o.path
	r.OutputFile.Note = fmt.Sprintf("only the beginning is shown; read_file(%q).splitlines()[-20:] has the end", workspacePath(o.path))
}

// Discard drops all output.
func (o *Output) Discard() {
	if o.file != nil {
		o.file.Abort()
	}
	o.file, o.items = nil, nil
}

// encodedLen estimates how many bytes s takes in a JSON list.
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

// workspacePath returns path relative to the workspace, as the file tools take it.
func workspacePath(path string) string { return strings.TrimPrefix(path, "/workspace/") }
