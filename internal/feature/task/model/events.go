package model

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Limits of a stream, in bytes. Thoughts and keep-alives are not part of the answer.
const (
	maxEvent  = 1 << 20
	maxStream = 16 << 20
)

var errLong = errors.New("the answer is too long")

// events calls f with the data of each event of a stream, until f returns an error or the
// stream ends. After io.EOF from f it returns nil.
func events(stream io.Reader, f func(data []byte) error) error {
	limited := &io.LimitedReader{R: stream, N: maxStream}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxEvent)
	var data []byte
	emit := func() error {
		if len(data) == 0 {
			return nil
		}
		err := f(data)
		data = data[:0]
		return err
	}
	for lines.Scan() {
		line := lines.Bytes() // without the line end, CRLF or LF
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		switch {
		case len(line) == 0:
			if err := emit(); err != nil {
				return ended(err)
			}
		case !ok: // a comment, or a field whose content is in the data too
		case len(data)+len(value) > maxEvent:
			return errLong
		default:
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if limited.N == 0 {
		return errLong
	}
	return ended(emit())
}

// ended returns nil for io.EOF.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
