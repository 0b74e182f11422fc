package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

const methodWait = "wait"

// methodDeadline is the entry of a record with the end of a wait for so many seconds: the code
// does not state a time, since concurrent threads would read the clock in another order in a replay.
const methodDeadline = "deadline"

// Waits that are shorter keep their worker; so do waits while other threads make calls.
const (
	shortWait  = time.Second
	quietFor   = 5 * time.Second
	signalPoll = 200 * time.Millisecond
)

// waitArgs describe what the code waits for: an event, a time, or the first of both. The time is in
// seconds since 1970, or in seconds from when the code waits.
type waitArgs struct {
	Event string   `json:"event,omitempty"`
	Until *float64 `json:"until,omitempty"`
	For   *float64 `json:"for,omitempty"`
	Alone bool     `json:"alone,omitempty"` // the code has no other thread

	ends time.Time // of a wait for a number of seconds, also by the monotonic clock
}

func (a waitArgs) check() error {
	wrong := func(t *float64) bool { return t != nil && (math.IsNaN(*t) || *t < 0 || *t > 1<<38) }
	if a.Event == "" && a.Until == nil && a.For == nil || len(a.Event) > 800 || wrong(a.Until) || wrong(a.For) || a.Until != nil && a.For != nil {
		return fault.New(fault.Invalid, "a wait needs an event of 1 to 800 bytes or a time")
	}
	return nil
}

// until returns the time that ends the wait; zero if only the event does.
func (a waitArgs) until() time.Time {
	if a.Until == nil {
		return time.Time{}
	}
	if !a.ends.IsZero() {
		return time.Now().Add(time.Until(a.ends))
	}
	return time.UnixMicro(int64(*a.Until * 1e6))
}

// waitAnswer is the answer to a wait: the value of a signal, or none if the time has come.
type waitAnswer struct {
	Value json.RawMessage `json:"value,omitempty"`
}

// activity counts the calls of an execution, to find out whether it does nothing but wait.
type activity struct {
	mu    sync.Mutex
	calls int       // in progress, without waits
	last  time.Time // when such a call began or ended
	waits []waitArgs
}

// begin counts a call, and returns a function for its end.
func (a *activity) begin() func() {
	change := func(n int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls += n
		a.last = time.Now()
	}
	change(1)
	return func() { change(-1) }
}

// wait counts a wait, and returns a function for its end.
func (a *activity) wait(w waitArgs) func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waits) == 0 && a.last.IsZero() {
		a.last = time.Now()
	}
	a.waits = append(a.waits, w)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		i := slices.IndexFunc(a.waits, func(o waitArgs) bool { return o.Event == w.Event && o.Until == w.Until })
		a.waits = slices.Delete(a.waits, i, i+1)
	}
}

// idle reports whether no call is in progress, and none was made for a while unless the waiting
// thread is alone. It returns what all waits wait for.
func (a *activity) idle(alone bool) (w journal.Wait, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls > 0 || !alone && time.Since(a.last) < quietFor {
		return w, false
	}
	for _, one := range a.waits {
		at := one.until()
		if !at.IsZero() && (w.Until.IsZero() || at.Before(w.Until)) {
			w.Until = at
		}
		if one.Event != "" {
			w.Events = append(w.Events, one.Event)
		}
	}
	return w, w.Until.IsZero() || time.Until(w.Until) > shortWait
}

// waiting is what an execution without a worker waits for.
type waiting struct {
	mu  sync.Mutex
	set bool
	journal.Wait
}

func (w *waiting) until() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.set
}

// errWaits is the cause that ends the worker of an execution that waits.
var errWaits = errors.New("the execution waits without a worker")

// wait waits for a time or a signal: with the worker if that is soon, otherwise without it. The
// time limit does not count the wait.
func (h *host) wait(ctx context.Context, a waitArgs) (any, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	record := h.run.record
	if !h.resumable() {
		return nil, fault.New(fault.Invalid, "sleep_until, sleep_for and wait_for need an execution that can be resumed, and this is a step of a session or a dry run").
			WithHint("run the code without session_id, or use time.sleep within the time limit")
	}
	span := a.For
	a, err := h.deadline(ctx, a)
	if err != nil {
		return nil, err
	}
	args, err := json.Marshal(waitArgs{Event: a.Event, Until: a.Until})
	if err != nil {
		return nil, err
	}
	was, err := record.Next(ctx, journal.HostCall{Method: methodWait, Args: args, Step: sandbox.StepOf(ctx)})
	if err != nil {
		return nil, err
	}
	if was.Answer != nil {
		return h.signalValue(ctx, was.Answer.Value, was.Answer.Err())
	}
	if span != nil {
		now := time.Now()
		a.ends = now.Add(clock.Left(a.until(), now, Seconds(*span)))
	}
	defer h.busy.wait(a)()
	h.Pause()
	answer, err := h.awaitSignal(ctx, was.Number, a)
	if back := h.Resume(ctx); err == nil {
		err = back
	}
	return h.signalValue(ctx, answer, err)
}

// deadline replaces a number of seconds by the time at which they have passed. It is recorded when
// the code first waits.
func (h *host) deadline(ctx context.Context, a waitArgs) (waitArgs, error) {
	if a.For == nil {
		return a, nil
	}
	args, err := json.Marshal(waitArgs{Event: a.Event, For: a.For})
	if err != nil {
		return a, err
	}
	now := func(context.Context) (any, error) { return float64(time.Now().UnixMicro())/1e6 + *a.For, nil }
	at, err := h.callOnce(ctx, journal.HostCall{Method: methodDeadline, Args: args}, false, now)
	if err != nil {
		return a, err
	}
	a.For, a.Until = nil, new(float64)
	switch at := at.(type) {
	case float64:
		*a.Until = at
	case json.RawMessage:
		err = json.Unmarshal(at, a.Until)
	}
	return a, err
}

// signalValue restores the tokens in the answer to a wait, which a model may have sent.
func (h *host) signalValue(ctx context.Context, answer json.RawMessage, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return h.gate.Restorer().Variables(ctx, answer)
}

// awaitSignal waits until the time has come or a signal has arrived.
func (h *host) awaitSignal(ctx context.Context, number int, a waitArgs) (json.RawMessage, error) {
	for until := a.until(); ; {
		if a.Event != "" {
			taken, err := journal.TakeSignal(ctx, h.run.record, number, a.Event, func(v json.RawMessage) journal.Answer {
				answer, _ := journal.NewAnswer(waitAnswer{v}, nil)
				return answer
			})
			if err != nil {
				return nil, err
			}
			if taken != nil {
				return taken.Value, nil
			}
		}
		left := time.Until(until)
		if !until.IsZero() && left <= 0 {
			answer, err := journal.NewAnswer(waitAnswer{}, nil)
			if err == nil {
				err = h.run.record.SetAnswerNow(ctx, number, answer)
			}
			return answer.Value, err
		}
		if w, ok := h.busy.idle(a.Alone); ok {
			if err := h.endWorker(ctx, w); err != nil {
				return nil, err
			}
		}
		pause := signalPoll
		if !until.IsZero() {
			pause = min(pause, max(left, time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// endWorker ends the worker; the execution continues as a background execution. What it needs
// for that is on disk before the worker ends.
func (h *host) endWorker(ctx context.Context, w journal.Wait) error {
	x := h.run
	x.wait.mu.Lock()
	defer x.wait.mu.Unlock()
	if x.wait.set {
		return nil
	}
	if err := x.record.Flush(ctx); err != nil {
		return err
	}
	if x.record.TooLarge() {
		return fault.New(fault.Exhausted, "the execution cannot wait: its record is too large to continue it").
			WithHint("wait before the code reads or makes much")
	}
	if x.background.Load() == nil {
		if err := addRun(ctx, h.home, x); err != nil {
			return err
		}
	}
	x.wait.set, x.wait.Wait = true, w
	x.cancel(errWaits)
	return nil
}

// TypeSuspended is the ErrorType of an execution that waits without a worker.
const TypeSuspended = "suspended"

// explainWait replaces the outcome of an execution that waits.
func (e *executor) explainWait() {
	x := e.run
	if !x.wait.until() || x.err != nil {
		return
	}
	for_ := ""
	switch w := x.wait.Wait; {
	case w.Until.IsZero():
		for_ = "for a signal"
	case len(w.Events) > 0:
		for_ = "for a signal, until " + w.Until.UTC().Format(time.RFC3339)
	default:
		for_ = "until " + w.Until.UTC().Format(time.RFC3339)
	}
	f := &x.result.Failure
	f.ErrorType, f.Error = TypeSuspended, fmt.Sprintf("Execution waits %s, and continues then in the background", for_)
	f.Hint = "get_background_task_status, or `sandpiper executions watch " + e.run.id + "`, returns its state and its result; signal_execution, or `sandpiper executions signal " + e.run.id + " EVENT`, sends a signal"
}
