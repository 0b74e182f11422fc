package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// sseReader filters a stream of server-sent events: it replaces each message by the output of the
// interceptor, and limits the size of an event.
//
// https://html.spec.whatwg.org/multipage/server-sent-events.html
type sseReader struct {
	in          io.ReadCloser
	r           *bufio.Reader
	interceptor *interceptor
	id          int64 // of the request that this stream answers; 0 for a general stream
	legacy      bool  // HTTP+SSE transport, where the SDK treats each event as a message

	ready bytes.Buffer // filtered output
	err   error        // returned after ready is drained

	// the current event
	name, otherLines []byte // its name; its other lines, unchanged
	data             message
	hasData          bool // whether there was a data line
}

func newSSEReader(in io.ReadCloser, t *interceptor, id int64, old bool) *sseReader {
	return &sseReader{
		in:          in,
		r:           bufio.NewReaderSize(in, 32<<10),
		interceptor: t,
		id:          id,
		legacy:      old,
		data:        message{t: t},
	}
}

// Close implements io.Closer.
func (e *sseReader) Close() error {
	e.interceptor.unclaimed.end(&e.data) // an event that is not read to its end
	return e.in.Close()
}

// Read implements io.Reader.
func (e *sseReader) Read(p []byte) (int, error) {
	for e.ready.Len() == 0 && e.err == nil {
		e.readLine()
	}
	if e.ready.Len() == 0 {
		return 0, e.err
	}
	return e.ready.Read(p)
}

// maxRest bounds the lines of an event other than data.
const maxRest = 4 << 10

// readLine reads one line, in pieces if it is long. Only data lines may be long.
func (e *sseReader) readLine() {
	part, err := e.r.ReadSlice('\n')
	long := errors.Is(err, bufio.ErrBufferFull)
	field, value, _ := bytes.Cut(part, []byte(":"))
	isData := string(bytes.TrimRight(field, "\r\n")) == "data"
	switch {
	case isData:
		if e.hasData {
			e.appendData([]byte(" ")) // replaces the line break, which is white space in JSON
		}
		e.hasData = true
		e.appendData(bytes.TrimPrefix(value, []byte(" ")))
	case len(bytes.TrimRight(part, "\r\n")) == 0:
		e.endEvent()
	case string(field) == "event":
		e.name = bytes.Clone(bytes.TrimSpace(value))
		fallthrough
	case string(field) == "id" || string(field) == "retry":
		if len(e.otherLines)+len(part) <= maxRest {
			e.otherLines = append(append(e.otherLines, bytes.TrimRight(part, "\r\n")...), '\n')
		}
	}
	for long { // the rest of the line
		part, err = e.r.ReadSlice('\n')
		long = errors.Is(err, bufio.ErrBufferFull)
		if isData {
			e.appendData(part)
		}
	}
	if err != nil {
		e.endEvent()
		e.err = err
	}
}

// appendData appends to the data of the event.
func (e *sseReader) appendData(part []byte) {
	_, _ = e.data.Write(bytes.TrimSuffix(bytes.TrimSuffix(part, []byte("\n")), []byte("\r")))
}

// endEvent filters the event and appends the output to ready. An event whose message was
// consumed keeps its id, which is used to resume a broken stream.
func (e *sseReader) endEvent() {
	var pass [][]byte
	isMessage := len(e.name) == 0 || string(e.name) == "message"
	switch {
	case !e.hasData:
	case !isMessage && e.data.tail == nil:
		pass = [][]byte{e.data.data}
	case !isMessage:
		e.data.discard()
	case e.data.tail != nil:
		pass = e.interceptor.receiveLarge(&e.data, e.id)
	case len(bytes.TrimSpace(e.data.data)) > 0:
		if m := e.interceptor.receive(e.data.data); m != nil {
			pass = [][]byte{m}
		}
	}
	for i, m := range pass {
		if i > 0 {
			e.ready.WriteByte('\n')
		}
		e.ready.Write(e.otherLines)
		// A line break in JSON is white space.
		e.ready.WriteString("data: ")
		e.ready.Write(bytes.ReplaceAll(m, []byte("\n"), []byte(" ")))
		e.ready.WriteByte('\n')
	}
	if len(pass) == 0 && !e.legacy {
		e.ready.Write(e.otherLines)
	}
	if e.ready.Len() > 0 {
		e.ready.WriteByte('\n')
	}
	e.data.processed()
	e.name, e.otherLines, e.data, e.hasData = nil, nil, message{t: e.interceptor}, false
}
