package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// events is a stream of server-sent events in which messages were replaced by
// what the tap lets through of them. It bounds what it keeps of an event.
//
// https://html.spec.whatwg.org/multipage/server-sent-events.html
type events struct {
	in  io.ReadCloser
	r   *bufio.Reader
	tap *tap
	id  int64 // of the request that this stream answers; 0 if it is not one's
	old bool  // whether it is one of the first days, of which the SDK takes each event for a message

	ready bytes.Buffer // what can be read
	err   error        // after it

	// the event that is being read
	name, rest []byte // its name; its other lines, as they are
	data, tail []byte // its data; if that is too large, the beginning and the end
	some       bool   // whether there was a line of data
}

func newEvents(in io.ReadCloser, t *tap, id int64, old bool) *events {
	return &events{in: in, r: bufio.NewReaderSize(in, 32<<10), tap: t, id: id, old: old}
}

// Close implements io.Closer.
func (e *events) Close() error { return e.in.Close() }

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for e.ready.Len() == 0 && e.err == nil {
		e.line()
	}
	if e.ready.Len() == 0 {
		return 0, e.err
	}
	return e.ready.Read(p)
}

// maxRest bounds the lines of an event that are no data.
const maxRest = 4 << 10

// line reads one line, in pieces if it is long: only data may be.
func (e *events) line() {
	part, err := e.r.ReadSlice('\n')
	long := errors.Is(err, bufio.ErrBufferFull)
	field, value, _ := bytes.Cut(part, []byte(":"))
	isData := string(bytes.TrimRight(field, "\r\n")) == "data"
	switch {
	case isData:
		if e.some {
			e.keep([]byte(" ")) // for the line break, which no message has but as space
		}
		e.some = true
		e.keep(bytes.TrimPrefix(value, []byte(" ")))
	case len(bytes.TrimRight(part, "\r\n")) == 0:
		e.flush()
	case string(field) == "event":
		e.name = bytes.Clone(bytes.TrimSpace(value))
		fallthrough
	case string(field) == "id" || string(field) == "retry":
		if len(e.rest)+len(part) <= maxRest {
			e.rest = append(append(e.rest, bytes.TrimRight(part, "\r\n")...), '\n')
		}
	}
	for long { // the rest of the line
		part, err = e.r.ReadSlice('\n')
		long = errors.Is(err, bufio.ErrBufferFull)
		if isData {
			e.keep(part)
		}
	}
	if err != nil {
		e.flush()
		e.err = err
	}
}

// keep adds to the data of the event.
func (e *events) keep(part []byte) {
	part = bytes.TrimSuffix(bytes.TrimSuffix(part, []byte("\n")), []byte("\r"))
	switch {
	case e.tail == nil && len(e.data)+len(part) <= e.tap.max:
		e.data = append(e.data, part...)
	case e.tail == nil:
		e.data = append(e.data, part...)
		e.data, e.tail = bytes.Clone(e.data[:min(peek, len(e.data))]), bytes.Clone(e.data[max(0, len(e.data)-peek):])
	default:
		e.tail = append(e.tail, part...)
		e.tail = append(e.tail[:0], e.tail[max(0, len(e.tail)-peek):]...)
	}
}

// flush ends an event and makes what is left of it ready. An event whose message
// was taken keeps its id, by which a broken stream is taken up again.
func (e *events) flush() {
	var pass [][]byte
	isMessage := len(e.name) == 0 || string(e.name) == "message"
	switch {
	case !e.some:
	case !isMessage && e.tail == nil:
		pass = [][]byte{e.data}
	case !isMessage:
	case e.tail != nil && e.id != 0 && e.tap.waits(e.id):
		pass = [][]byte{e.tap.fail(e.id, ErrTooLarge)}
	case e.tail != nil:
		pass = e.tap.tooLarge(e.data, e.tail)
	case len(bytes.TrimSpace(e.data)) > 0:
		if m := e.tap.receive(e.data); m != nil {
			pass = [][]byte{m}
		}
	}
	for i, m := range pass {
		if i > 0 {
			e.ready.WriteByte('\n')
		}
		e.ready.Write(e.rest)
		// A line break in a message is white space: they are joined.
		e.ready.WriteString("data: ")
		e.ready.Write(bytes.ReplaceAll(m, []byte("\n"), []byte(" ")))
		e.ready.WriteByte('\n')
	}
	if len(pass) == 0 && !e.old {
		e.ready.Write(e.rest)
	}
	if e.ready.Len() > 0 {
		e.ready.WriteByte('\n')
	}
	e.name, e.rest, e.data, e.tail, e.some = nil, nil, nil, nil, false
}
