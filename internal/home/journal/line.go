package journal

import (
	"encoding/binary"
	"errors"
)

// Kinds of a line.
const (
	callBegan byte = iota + 1
	callEnded
	recordEntered
	recordTooLarge
	recordEnded // the run has completed, and is deleted
	hostCall
	stepEnded // its entries, and those of the calls in it, are deleted
)

// line is one change in the log of calls: of an entry, or of a record.
type line struct {
	kind      byte
	number    int64 // of a call among those that its Log has begun; of a host call or step
	step      int64
	at        int64 // Unix milliseconds
	created   int64 // the same, of a record
	execution string
	method    string
	server    string
	tool      string
	state     string // of a host call; outcome of a call; process of a record that is entered or ended
	arguments []byte // encrypted; hash of those of a call; encrypted request of a record
	answer    []byte // encrypted; nil for none
}

func appendLine(b []byte, l line) []byte {
	b = append(b, l.kind)
	for _, n := range [...]int64{l.number, l.step, l.at, l.created} {
		b = binary.AppendVarint(b, n)
	}
	for _, s := range [...]string{l.execution, l.method, l.server, l.tool, l.state} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	b = append(binary.AppendUvarint(b, uint64(len(l.arguments))), l.arguments...)
	if l.answer == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(l.answer))+1), l.answer...)
}

// readLines returns the lines of a frame. They refer to b.
func readLines(b []byte) (lines []line, err error) {
	r := lineReader{rest: b}
	for len(r.rest) > 0 && !r.short {
		l := line{kind: r.bytes(1)[0]}
		for _, n := range [...]*int64{&l.number, &l.step, &l.at, &l.created} {
			*n = r.number(binary.Varint)
		}
		for _, s := range [...]*string{&l.execution, &l.method, &l.server, &l.tool, &l.state} {
			*s = string(r.bytes(r.length()))
		}
		l.arguments = r.bytes(r.length())
		if n := r.length(); n > 0 {
			l.answer = r.bytes(n - 1)
		}
		lines = append(lines, l)
	}
	if r.short {
		return nil, errors.New("a frame has another form")
	}
	return lines, nil
}

// lineReader reads the parts of lines.
type lineReader struct {
	rest  []byte
	short bool // it ended within a line
}

func (r *lineReader) bytes(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.short = true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *lineReader) length() int {
	return int(r.number(func(b []byte) (int64, int) {
		v, n := binary.Uvarint(b)
		return int64(v), n
	}))
}

func (r *lineReader) number(decode func([]byte) (int64, int)) int64 {
	v, n := decode(r.rest)
	if n <= 0 {
		r.short = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}
