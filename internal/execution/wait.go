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
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
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
	if a.Event == "" && a.Until == nil && a.For == nil || len(a.Event) > 800 || wrong(a.Until) || wrong(a.For) ||
		a.Until != nil && a.For != nil {
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

// waiting is what an execution without a worker waits for.
type waiting struct {
	mu  sync.Mutex
	set bool
	journal.Wait
	live  []byte // progress and open questions
	asks  bool   // there are questions
	ended bool   // one of the waits ended while the worker was
}

func (w *waiting) until() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.set
}

// wake makes an execution that waits due at once.
func (w *waiting) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

// end returns the end of a run that waits.
func (w *waiting) end() journal.End {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := journal.End{State: journal.Waiting, Wait: w.Wait, Live: w.live}
	if w.ended {
		e.Wait.Until = time.Now()
	}
	return e
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
		return nil, fault.New(fault.Invalid, "sleep_until, sleep_for and wait_for need an execution that can be resumed, and this is a "+
			"step of a session or a dry run").
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
	p := &pause{until: a.until}
	if a.Event != "" {
		p.events = []string{a.Event}
	}
	h.busy.begin(p)
	h.Pause()
	answer, err := h.awaitSignal(ctx, was.Number, a)
	if h.busy.end(p) && err == nil {
		h.run.wait.wake()
	}
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
		quiet := quietFor
		if a.Alone {
			quiet = 0
		}
		if err := h.endWorker(ctx, quiet); err != nil {
			return nil, err
		}
		next := signalPoll
		if !until.IsZero() {
			next = min(next, max(left, time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(next):
		}
	}
}

// endWorker ends the worker if the execution does nothing but wait, and made no call for a while; the execution
// continues as a background execution. What it needs for that is on disk before the worker ends.
func (h *host) endWorker(ctx context.Context, quiet time.Duration) error {
	x := h.run
	b := x.background.Load()
	all, ok := h.busy.endIdle(quiet, h.r.cfg.AnswerGrace, b != nil && x.showing.Load() == 0)
	if !ok {
		return nil
	}
	ended := false
	defer func() {
		if !ended {
			h.busy.keep()
		}
	}()
	if err := x.record.Flush(ctx); err != nil {
		return err
	}
	if x.record.TooLarge() {
		return errTooLargeToWait
	}
	if b == nil {
		if err := addRun(ctx, h.home, x); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(all, func(p *pause) bool { return p.question }) {
		if undelivered, err := journal.HasSignal(ctx, h.home.Runs, x.id, live.AnswerEvent); err != nil || undelivered {
			return err
		}
	}
	var err error
	if ended, err = x.wait.begin(h, all); ended {
		x.cancel(errWaits)
	}
	return err
}

// errTooLargeToWait is the error of a wait that needs a worker.
var errTooLargeToWait = fault.New(fault.Exhausted, "the execution cannot wait: its record is too large to continue it").
	WithHint("wait before the code reads or makes much")

// begin sets what an execution waits for from now on, and closes its questions. It returns false if one of them was
// answered.
func (w *waiting) begin(h *host, all []*pause) (began bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	open, ok := h.run.questions.CloseAll()
	if !ok {
		return false, nil
	}
	var approvals []string
	if w.Wait, approvals = waitOf(all); len(approvals) > 0 {
		w.Arrived = func(ctx context.Context, tx *store.Tx) (bool, error) {
			open, err := approval.OpenIn(ctx, h.home.Approvals, tx, approvals)
			return !open, err
		}
	}
	w.set, w.asks = true, len(open) > 0
	w.live, err = json.Marshal(h.run.liveState(open))
	return true, err
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
	case x.wait.asks:
		for_ = "for an answer"
	case w.Until.IsZero():
		for_ = "for a signal"
	case len(w.Events) > 0:
		for_ = "for a signal, until " + w.Until.UTC().Format(time.RFC3339)
	default:
		for_ = "until " + w.Until.UTC().Format(time.RFC3339)
	}
	f := &x.result.Failure
	f.ErrorType, f.Error = TypeSuspended, fmt.Sprintf("Execution waits %s, and continues then in the background", for_)
	f.Hint = "get_background_task_status, or `sandpiper executions watch " + e.run.id + "`, returns its state and its result"
	if !x.wait.asks {
		f.Hint += "; signal_execution, or `sandpiper executions signal " + e.run.id + " EVENT`, sends a signal"
	}
}
