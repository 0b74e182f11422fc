package worker

import (
	"io"
	"runtime"
	"syscall"
	"time"
)

// input reads the channel. Code that makes calls in a loop sends the next one some
// microseconds after an answer, which is less than it takes to park this goroutine and
// to wake it. So input polls the channel for a moment after an answer, as long as
// that succeeds.
type input struct {
	ch       io.Reader
	raw      syscall.RawConn // nil if ch is not pollable
	answered bool            // an answer has been sent since the last read
	skip     int             // answers after which it does not poll
}

const (
	// pollTime bounds one poll of the channel.
	pollTime = 50 * time.Microsecond
	// pollPause is the number of answers without a poll after one that failed: the
	// code does something else after its calls, or the processor is busy.
	pollPause = 32
)

// Read reads what has arrived, at least one byte.
func (in *input) Read(p []byte) (int, error) {
	if in.answered {
		in.answered = false
		if n := in.poll(p); n > 0 {
			return n, nil
		}
	}
	return in.ch.Read(p)
}

// poll reads what arrives within pollTime and returns the number of bytes.
func (in *input) poll(p []byte) int {
	if in.skip > 0 {
		in.skip--
		return 0
	}
	if in.raw == nil || runtime.GOMAXPROCS(0) == 1 {
		return 0
	}
	n := readWithin(in.raw, p, pollTime)
	if n == 0 {
		in.skip = pollPause
	}
	return n
}
