package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// request is the payload of a Call or Notice frame.
type request struct {
	ID     int64           `json:"id"`
	Method string          `json:"method"`
	Args   json.RawMessage `json:"args"`
	Clock  []int64         `json:"clock"`
	Step   int             `json:"step"`
}

func decodeRequest(payload []byte) (request, error) {
	var q request
	if err := json.Unmarshal(payload, &q); err != nil {
		return q, fmt.Errorf("%w: call: %w", ErrProtocol, err)
	}
	return q, nil
}

// call serves one call at once if the host can, else it starts a goroutine for it. It
// blocks while too many are in flight.
func (r *run) call(payload []byte) error {
	q, err := decodeRequest(payload)
	if err != nil {
		return err
	}
	if q.Step < 0 {
		return fmt.Errorf("%w: a call of step %d", ErrProtocol, q.Step)
	}
	if err := r.recordClock(q.Step, q.Clock); err != nil {
		return err
	}
	ctx := r.ctx
	if q.Step != 0 {
		ctx = sandbox.WithStep(ctx, q.Step)
	}
	weight := int64(callWeight + len(payload))
	if err := r.c.calls.Acquire(r.ctx, weight); err != nil {
		return err
	}
	ctx, ended := r.cancellable(ctx, q.ID)
	if r.quick != nil {
		if result, served, err := r.quick.CallNow(ctx, q.Method, q.Args); served {
			ended()
			r.answerNow(r.encodeAnswer(q, result, err), weight)
			return nil
		}
	}
	r.spawn(func() {
		defer r.c.calls.Release(weight)
		defer ended()
		result, release, err := r.callReserved(ctx, q)
		defer release()
		if frame := r.encodeAnswer(q, result, err); frame != nil {
			r.failOn(r.send(frame))
		}
	})
	return nil
}

// callReserved calls the host. The caller calls release when it has sent the result.
func (r *run) callReserved(ctx context.Context, q request) (result []byte, release func(), err error) {
	if h, ok := r.host.(sandbox.ReservingHost); ok {
		return h.CallReserved(ctx, q.Method, q.Args)
	}
	result, err = r.host.Call(ctx, q.Method, q.Args)
	return result, func() {}, err
}

// spawn runs f on a goroutine: one that has served an earlier call of the execution and
// is idle, otherwise a new one. A tool call needs a large stack, which a new goroutine
// has to copy several times while it grows.
func (r *run) spawn(f func()) {
	select {
	case r.next <- f:
	default:
		go func() {
			for {
				f()
				select {
				case f = <-r.next:
				case <-r.ctx.Done():
					return
				}
			}
		}()
	}
}

// answerNow sends the answer of a call that was served at once. It never waits for the
// worker, which may itself wait until the daemon reads its frames: a goroutine sends
// what does not fit the buffer of the channel.
func (r *run) answerNow(frame []byte, weight int64) {
	later := func(send func() error) {
		go func() {
			defer r.c.calls.Release(weight)
			r.failOn(send())
		}()
	}
	if !r.c.writing.TryLock() { // another answer does not fit
		later(func() error { return r.send(frame) })
		return
	}
	if frame = frame[writeNow(r.c.raw, frame):]; len(frame) > 0 {
		later(func() error {
			defer r.c.writing.Unlock()
			return r.write(frame)
		})
		return
	}
	r.c.writing.Unlock()
	r.c.calls.Release(weight)
	r.c.input.answered = true
}

// failOn ends the execution if a frame could not be sent.
func (r *run) failOn(err error) {
	if err != nil {
		r.cancel(channelError{err})
	}
}

// recordClock passes the clock readings that precede a call to the host.
func (r *run) recordClock(step int, readings []int64) error {
	if len(readings) == 0 {
		return nil
	}
	if r.readings -= len(readings); r.readings < 0 {
		return fmt.Errorf("%w: too many clock readings", ErrProtocol)
	}
	if slices.Min(readings) < 0 {
		return fmt.Errorf("%w: a clock reading before 1970", ErrProtocol)
	}
	if h, ok := r.host.(sandbox.ClockRecorder); ok {
		h.RecordClock(step, readings)
	}
	return nil
}

// encodeAnswer returns the frame with the answer to a call; none if the execution has
// ended.
func (r *run) encodeAnswer(q request, result []byte, err error) []byte {
	if r.ctx.Err() != nil {
		return nil
	}
	if err == nil && len(result) > maxAnswer {
		err = fault.New(fault.Exhausted, "the answer to %s has %d bytes, at most %d are allowed", q.Method, len(result), maxAnswer)
	}
	return encodeAnswer(r.number, q.ID, result, err)
}

// notice passes a call without an answer to the host, in order with output.
func (r *run) notice(payload []byte) error {
	q, err := decodeRequest(payload)
	if err != nil {
		return err
	}
	if q.Method == "cancel" {
		return r.cancelCall(q.Args)
	}
	_, _ = r.host.Call(r.ctx, q.Method, q.Args)
	return nil
}

// cancellable returns the context of a call, which cancelCall ends, and a function that forgets it.
func (r *run) cancellable(ctx context.Context, id int64) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight[id] = cancel
	return ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.inFlight, id)
		cancel(nil)
	}
}

// cancelCall ends a call for which the code no longer waits, if it is in flight.
func (r *run) cancelCall(args []byte) error {
	var of struct {
		ID int64 `json:"id"`
	}
	if err := json.Unmarshal(args, &of); err != nil {
		return fmt.Errorf("%w: cancel: %w", ErrProtocol, err)
	}
	r.mu.Lock()
	cancel := r.inFlight[of.ID]
	r.mu.Unlock()
	if cancel != nil {
		cancel(tool.ErrCancelled)
	}
	return nil
}

// waitForCalls waits, for a bounded time, until no call is in flight.
func (c *Conn) waitForCalls() {
	if !c.calls.TryAcquire(callBudget) {
		ctx, cancel := context.WithTimeout(context.Background(), callWait)
		defer cancel()
		if c.calls.Acquire(ctx, callBudget) != nil {
			return
		}
	}
	c.calls.Release(callBudget)
}

func encodeAnswer(number uint32, id int64, result []byte, err error) []byte {
	if err != nil {
		return encodeFailure(number, id, err)
	}
	if result == nil {
		result = []byte("null")
	}
	b := make([]byte, headerBytes, headerBytes+40+len(result))
	b = append(b, `{"id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"result":`...)
	b = append(b, result...)
	b = append(b, '}')
	return putHeader(b, Answer, number)
}

func encodeFailure(number uint32, id int64, err error) []byte {
	type failure struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}
	of := failure{Type: exception(err), Message: fault.Message(err)}
	if quota := fault.Quota(err); quota != "" {
		of.Type, of.Data = "QuotaError", quotaExceeded{quota}
	}
	if hint := fault.Hint(err); hint != "" {
		of.Message += ": " + hint
	}
	if f, ok := errors.AsType[*tool.Failure](err); ok {
		of = failure{"ToolError", f.Message, toolFailed{f.Ref, validOrNil(f.Data), f.Outcome(), f.Retryable, f.Status, f.Later.Seconds(),
			f.Cancelled}}
	}
	return encodeFrame(Answer, number, struct {
		ID    int64   `json:"id"`
		Error failure `json:"error"`
	}{id, of})
}

// quotaExceeded is the data of a QuotaError.
type quotaExceeded struct {
	Quota string `json:"quota"`
}

// toolFailed is the data of a ToolError.
type toolFailed struct {
	tool.Ref
	Data       json.RawMessage `json:"data,omitempty"`
	Outcome    string          `json:"outcome"`
	Retryable  bool            `json:"retryable,omitempty"`
	Status     int             `json:"status,omitempty"`
	RetryAfter float64         `json:"retry_after,omitempty"` // seconds
	Cancelled  bool            `json:"cancelled,omitempty"`
}

func validOrNil(b json.RawMessage) json.RawMessage {
	if !json.Valid(b) {
		return nil
	}
	return b
}

// exception returns the Python exception that a failed call raises.
func exception(err error) string {
	switch fault.KindOf(err) {
	case fault.Invalid:
		return "ValueError"
	case fault.NotFound:
		return "FileNotFoundError"
	case fault.Denied:
		return "PermissionError"
	case fault.Unavailable:
		return "ConnectionError"
	}
	return "RuntimeError"
}
