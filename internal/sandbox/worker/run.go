package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Causes of an execution's end before its Done frame, besides the cause of the
// caller's context. The first cause wins.
var (
	errOver   = errors.New("the execution is over")
	errUnread = errors.New("did not read what the daemon sent")
)

// outputError is an error that Host.Output returned.
type outputError struct{ error }

// channelError is a read, write or protocol error of the channel.
type channelError struct{ error }

func (e channelError) Unwrap() error { return e.error }

// run is one execution on a Conn.
type run struct {
	c         *Conn
	number    uint32
	refusable bool // the program has a check, so status Refused is valid
	readings  int  // clock readings still allowed
	host      sandbox.Host
	quick     sandbox.QuickCaller // nil if host is none
	next      chan func()         // received by idle goroutines: see spawn
	ctx       context.Context     // ends with the execution; a run exists only during Run
	cancel    context.CancelCauseFunc
	detach    func() bool // keeps the channel open when ctx ends; false if it was closed already

	mu     sync.Mutex // serializes output items; guards the fields below
	over   bool       // further output is discarded
	stderr tail
	images []sandbox.Image
	// inFlight has the functions that cancel calls, by id.
	inFlight map[int64]context.CancelCauseFunc
}

func newRun(ctx context.Context, c *Conn, number uint32, host sandbox.Host) *run {
	r := &run{c: c, number: number, host: host, next: make(chan func()), inFlight: map[int64]context.CancelCauseFunc{}}
	r.quick, _ = host.(sandbox.QuickCaller)
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	// Closing the channel ends a pending read or write.
	r.detach = context.AfterFunc(r.ctx, func() { c.ch.Close() })
	return r
}

// serve sends the code, handles the worker's frames until Done, and waits for all
// calls.
func (r *run) serve(execute []byte) sandbox.Outcome {
	o, err := r.exchange(execute)
	r.c.drain()
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	if !r.detach() || err != nil {
		o = r.failed(err)
	}
	r.cancel(errOver)
	r.c.waitForCalls()
	o.Stderr, o.Images = r.stderr.String(), r.images
	return o
}

func (r *run) exchange(execute []byte) (sandbox.Outcome, error) {
	if err := r.send(execute); err != nil {
		return sandbox.Outcome{}, err
	}
	for {
		f, err := ReadFrame(r.c.in, r.c.limits.ResultBytes)
		if err != nil {
			return sandbox.Outcome{}, err
		}
		if f.Number != r.number {
			continue // a late frame of another execution
		}
		if f.Kind == Done {
			o, err := decodeDone(f.Payload, r.c.limits.ResultBytes)
			if o.Status == sandbox.Refused && !r.refusable {
				err = fmt.Errorf("%w: status refused for code without a check", ErrProtocol)
			}
			return o, err
		}
		if err := r.handle(f); err != nil {
			return sandbox.Outcome{}, err
		}
	}
}

func (r *run) handle(f Frame) error {
	switch f.Kind {
	case Output:
		return r.output(f.Payload)
	case Stderr:
		r.addStderr(f.Payload)
		return nil
	case Image:
		return r.image(f.Payload)
	case Call:
		return r.call(f.Payload)
	case Notice:
		return r.notice(f.Payload)
	}
	return fmt.Errorf("%w: unexpected %q frame", ErrProtocol, byte(f.Kind))
}

// send writes one frame. It fails if the worker does not read it within WriteTimeout.
func (r *run) send(frame []byte) error {
	r.c.writing.Lock()
	defer r.c.writing.Unlock()
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	// A frame nearly always fits what the channel buffers, and a timer would
	// cost more than the write.
	if frame = frame[writeNow(r.c.raw, frame):]; len(frame) == 0 {
		return nil
	}
	return r.write(frame)
}

// write writes a frame or its rest. The caller holds writing.
func (r *run) write(frame []byte) error {
	late := time.AfterFunc(r.c.limits.WriteTimeout, func() { r.cancel(errUnread) })
	defer late.Stop()
	_, err := r.c.ch.Write(frame)
	return err
}

// output passes one item to the host. Frames and lines from the stdout pipe call it
// concurrently.
func (r *run) output(p []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil
	}
	if !utf8.Valid(p) {
		p = toValidUTF8(p)
	}
	if err := r.host.Output(p); err != nil {
		r.over = true
		r.cancel(outputError{err})
		return err
	}
	return nil
}

func (r *run) addStderr(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.stderr.write(p)
	}
}

func (r *run) image(payload []byte) error {
	decoded, err := decodeImage(payload)
	if err != nil {
		return err
	}
	if len(r.images) == maxImages {
		return fmt.Errorf("%w: more than %d images", ErrProtocol, maxImages)
	}
	r.images = append(r.images, decoded)
	return nil
}

// failed returns the outcome of an execution that ended without a valid Done frame.
func (r *run) failed(err error) sandbox.Outcome {
	r.cancel(channelError{err}) // no effect if something else was the cause
	cause := context.Cause(r.ctx)
	var refused outputError
	var channel channelError
	switch {
	case errors.As(cause, &refused):
		return ended(sandbox.OverLimit, sandbox.LimitOutput, fault.Message(refused.error))
	case errors.Is(cause, ErrProtocol), errors.Is(cause, errUnread):
		return ended(sandbox.Crashed, "", "the code "+cause.Error())
	case errors.As(cause, &channel):
		return ended(sandbox.Crashed, "", "")
	case errors.Is(cause, sandbox.ErrTimeout):
		return ended(sandbox.TimedOut, "", "the time limit was reached")
	}
	return ended(sandbox.Cancelled, "", "the execution was cancelled")
}

func ended(s sandbox.Status, limit, why string) sandbox.Outcome {
	return sandbox.Outcome{Status: s, Limit: limit, Error: why, ErrorType: string(s)}
}
