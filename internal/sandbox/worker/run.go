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

// Why an execution ended before the worker said that it was done, besides what
// ended the caller's context. The first cause counts.
var (
	errOver   = errors.New("the execution is over")
	errUnread = errors.New("did not read what the daemon sent")
)

// outputError is the host's refusal to take more output.
type outputError struct{ error }

// channelError is what ended the conversation from the worker's side.
type channelError struct{ error }

func (e channelError) Unwrap() error { return e.error }

// run is one execution on a Conn.
type run struct {
	c         *Conn
	number    uint32
	refusable bool // the code may be refused
	readings  int  // of the clock that may still come
	host      sandbox.Host
	ctx       context.Context // ends with the execution; lives as long as Run does
	cancel    context.CancelCauseFunc
	keep      func() bool // lets the channel survive the end of ctx; false if it is too late

	mu     sync.Mutex // one item of output at a time; guards what follows
	over   bool       // nothing more is taken
	stderr tail
	images []sandbox.Image
}

func newRun(ctx context.Context, c *Conn, number uint32, host sandbox.Host) *run {
	r := &run{c: c, number: number, host: host}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	// Closing the channel is what ends a pending read or write.
	r.keep = context.AfterFunc(r.ctx, func() { c.ch.Close() })
	return r
}

// serve sends the code, answers the worker until it is done, and ends all that
// was started for it.
func (r *run) serve(execute []byte) sandbox.Outcome {
	o, err := r.converse(execute)
	r.c.drain()
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	if !r.keep() || err != nil {
		o = r.broken(err)
	}
	r.cancel(errOver)
	r.c.waitForCalls()
	o.Stderr, o.Images = r.stderr.String(), r.images
	return o
}

func (r *run) converse(execute []byte) (sandbox.Outcome, error) {
	if err := r.send(execute); err != nil {
		return sandbox.Outcome{}, err
	}
	for {
		f, err := ReadFrame(r.c.in, r.c.limits.ResultBytes)
		if err != nil {
			return sandbox.Outcome{}, err
		}
		if f.Number != r.number {
			continue // nothing late is believed
		}
		if f.Kind == Done {
			o, err := decodeDone(f.Payload, r.c.limits.ResultBytes)
			if o.Status == sandbox.Refused && !r.refusable {
				err = fmt.Errorf("%w: code that nobody checks was refused", ErrProtocol)
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
		r.takeStderr(f.Payload)
		return nil
	case Image:
		return r.picture(f.Payload)
	case Call:
		return r.call(f.Payload)
	case Notice:
		return r.notice(f.Payload)
	}
	return fmt.Errorf("%w: unexpected %q frame", ErrProtocol, byte(f.Kind))
}

// send writes one frame, or fails once the worker has not read it for too long.
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
	late := time.AfterFunc(r.c.limits.WriteTimeout, func() { r.cancel(errUnread) })
	defer late.Stop()
	_, err := r.c.ch.Write(frame)
	return err
}

// output hands one item to the host. It is called for frames and, beside them,
// for lines from the stdout pipe.
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

func (r *run) takeStderr(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.stderr.write(p)
	}
}

func (r *run) picture(payload []byte) error {
	image, err := decodeImage(payload)
	if err != nil {
		return err
	}
	if len(r.images) == maxImages {
		return fmt.Errorf("%w: more than %d images", ErrProtocol, maxImages)
	}
	r.images = append(r.images, image)
	return nil
}

// broken makes the outcome of an execution that did not come to its own end.
func (r *run) broken(err error) sandbox.Outcome {
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
