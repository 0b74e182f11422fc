package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Kind is the type of a frame.
type Kind byte

// The kinds of frame in docs/worker-protocol.md.
const (
	Execute    Kind = 'X'
	Answer     Kind = 'A'
	LockedDown Kind = 'S'
	Output     Kind = 'O'
	Stderr     Kind = 'E'
	Image      Kind = 'I'
	Call       Kind = 'C'
	Notice     Kind = 'N'
	Done       Kind = 'D'
)

const (
	headerBytes = 9
	longFrame   = 16 << 20
	shortFrame  = 64 << 10
	clockBytes  = sandbox.MaxClockReadings * 20 // clock readings, in addition to longFrame for the call
)

// Frame is one message between daemon and worker.
type Frame struct {
	Kind    Kind
	Number  uint32 // number of the execution; 0 only in LockedDown
	Payload []byte
}

// ErrProtocol is wrapped by every error caused by invalid bytes rather than by the
// channel.
var ErrProtocol = errors.New("broke the worker protocol")

// ReadFrame reads one frame from a worker and nothing beyond it. resultBytes
// bounds a result. The error is io.EOF if the channel ended between frames.
func ReadFrame(r io.Reader, resultBytes int64) (Frame, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Kind: Kind(header[4]), Number: binary.BigEndian.Uint32(header[5:])}
	size := int64(binary.BigEndian.Uint32(header[:4]))
	limit, ok := maxPayload(f.Kind, resultBytes)
	if !ok {
		return Frame{}, fmt.Errorf("%w: frame of unknown kind %q", ErrProtocol, header[4])
	}
	if size > limit {
		return Frame{}, fmt.Errorf("%w: %q frame of %d bytes, at most %d are allowed", ErrProtocol, header[4], size, limit)
	}
	var err error
	f.Payload, err = readPayload(r, int(size))
	return f, err
}

// maxPayload returns the payload limit of a frame from a worker.
func maxPayload(k Kind, resultBytes int64) (int64, bool) {
	switch k {
	case LockedDown, Notice:
		return shortFrame, true
	case Output, Stderr, Image:
		return longFrame, true
	case Call:
		return longFrame + clockBytes, true
	case Done:
		return resultBytes + longFrame, true
	}
	return 0, false
}

// readPayload reads size bytes. It allocates as they arrive, so that a forged
// header alone costs no memory.
func readPayload(r io.Reader, size int) ([]byte, error) {
	p := make([]byte, min(size, shortFrame))
	for got := 0; ; {
		n, err := io.ReadFull(r, p[got:])
		if got += n; err != nil {
			return nil, noEOF(err)
		}
		if got == size {
			return p, nil
		}
		p = append(make([]byte, 0, min(size, 4*len(p))), p...)
		p = p[:cap(p)][:min(size, cap(p))]
	}
}

// noEOF converts io.EOF within a frame to io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
