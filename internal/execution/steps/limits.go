package steps

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// maxTimeLimits bounds the time limits of one execution that run or have expired. Each that runs is a
// call in flight.
const maxTimeLimits = 1000

// limitArgs begin a time limit. It is recorded like a step: as its value, if it has expired.
type limitArgs struct {
	journal.StepKey
	Seconds float64 `json:"seconds"`
}

// begunLimit is the answer to limitArgs: the limit runs, or it is on record that it has expired.
type begunLimit struct {
	Number   int  `json:"number,omitempty"`
	Recorded bool `json:"recorded,omitempty"`
	Expired  bool `json:"expired,omitempty"`
	limitOutcome
	Drew int `json:"drew"`
}

type limitNumber struct {
	Number int `json:"number"`
}

type limitState struct {
	Expired bool `json:"expired"`
	limitOutcome
}

// limitOutcome names the calls of a function whose outcome is unknown since its time has expired.
type limitOutcome struct {
	Unknown []string `json:"unknown,omitempty"`
}

// errTimeLimit is the cause that ends the calls of a function whose time is over.
var errTimeLimit = errors.New("the time limit of the function has expired")

// limits are the time limits of functions in the code of an execution. Functions have the
// numbers of steps.
type limits struct {
	mu      sync.Mutex
	all     map[int]*timeLimit // by number; those that have expired stay, since their functions may make calls
	parents map[int]int        // of steps that began while there was a limit
	last    int                // number of the last function without a record
}

type timeLimit struct {
	clock        *clock.Clock
	ctx          context.Context // of the calls of the function
	cancel       context.CancelCauseFunc
	over         chan struct{} // closed when the function has ended, or its time
	expired      bool          // guarded by limits.mu until over
	calls        sync.WaitGroup
	limitOutcome // guarded by limits.mu; complete when calls has ended
}

// beginLimit starts the clock of a function.
func (h *Host) beginLimit(ctx context.Context, a limitArgs) (any, error) {
	if len(a.Name) > maxName || a.Name == "" || a.N < 1 || !(a.Seconds > 0 && a.Seconds < 1e9) {
		return nil, fault.New(fault.Invalid, "a time limit is a number of seconds above 0, got %g", a.Seconds)
	}
	s, err := journal.BeginStep(ctx, h.Record, a.StepKey)
	if err != nil {
		return nil, err
	}
	if s.Value != nil {
		again := begunLimit{Expired: true, Drew: s.Value.Drew}
		_ = json.Unmarshal(s.Value.JSON, &again.limitOutcome) // an older record has true
		return again, nil
	}
	l := &h.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	running := 0
	for _, one := range l.all {
		if !one.expired {
			running++
		}
	}
	if running >= hostcall.MaxConcurrent || len(l.all) >= maxTimeLimits {
		return nil, fault.New(fault.Exhausted, "%d time limits run and %d have expired; at most %d run at a time, and %d in all", running,
			len(l.all)-running, hostcall.MaxConcurrent, maxTimeLimits)
	}
	number := s.Number
	if number == 0 {
		l.last++
		number = l.last
	}
	l.start(number, a.Parent, h.Clock, time.Duration(a.Seconds*float64(time.Second)))
	return begunLimit{Number: number, Recorded: h.Record != nil}, nil
}

// start starts a limit. The caller holds the lock.
func (l *limits) start(number, parent int, of *clock.Clock, limit time.Duration) {
	if l.all == nil {
		l.all, l.parents = map[int]*timeLimit{}, map[int]int{}
	}
	one := &timeLimit{over: make(chan struct{})}
	one.ctx, one.cancel = context.WithCancelCause(context.Background())
	l.all[number] = one
	l.enterLocked(number, parent)
	one.clock = of.Within(limit, func() { l.end(number, true) })
}

// end ends a limit, unless it has ended. It reports whether it has expired.
func (l *limits) end(number int, expired bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.all[number]
	if one == nil {
		return false
	}
	select {
	case <-one.over:
		return one.expired
	default:
	}
	one.expired = expired
	close(one.over)
	one.clock.Stop()
	if expired {
		one.cancel(errTimeLimit)
	} else {
		one.cancel(nil)
		delete(l.all, number)
	}
	return expired
}

// endLimit ends the limit of a function that has ended.
func (h *Host) endLimit(_ context.Context, a limitNumber) (any, error) {
	return limitState{Expired: h.limits.end(a.Number, false)}, nil
}

// awaitLimit waits until a function or its time has ended.
func (h *Host) awaitLimit(ctx context.Context, a limitNumber) (any, error) {
	h.limits.mu.Lock()
	one := h.limits.all[a.Number]
	h.limits.mu.Unlock()
	if one == nil {
		return limitState{}, nil // it has ended
	}
	select {
	case <-one.over:
		if one.expired { // its calls end with its time
			one.calls.Wait()
		}
		h.limits.mu.Lock()
		defer h.limits.mu.Unlock()
		return limitState{one.expired, one.limitOutcome}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// enter notes the parent of a step, so that the calls in it end with the limits around it.
func (l *limits) enter(number, parent int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) > 0 {
		l.enterLocked(number, parent)
	}
}

func (l *limits) enterLocked(number, parent int) {
	if parent < number { // the worker is not trusted, and a cycle would have no end
		l.parents[number] = parent
	}
}

// Within returns a context for a call, which also ends with the time of the functions that make it,
// and a function to be called with the error of the call.
func (h *Host) Within(ctx context.Context) (context.Context, func(error), error) {
	l := &h.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return ctx, func(error) {}, nil
	}
	within, cancel := context.WithCancelCause(ctx)
	var around []*timeLimit
	stops := []func() bool{}
	stop := func() {
		for _, s := range stops {
			s()
		}
		cancel(nil)
		for _, one := range around {
			one.calls.Done()
		}
	}
	for number := sandbox.StepOf(ctx); number != 0; number = l.parents[number] {
		one := l.all[number]
		if one == nil {
			continue
		}
		if one.expired {
			stop()
			return nil, nil, fault.Wrap(fault.Unavailable, errTimeLimit,
				"the call was not made: the time limit of the function that makes it has expired")
		}
		stops = append(stops, context.AfterFunc(one.ctx, func() { cancel(errTimeLimit) }))
		one.calls.Add(1)
		around = append(around, one)
	}
	return within, func(err error) {
		if f, ok := errors.AsType[*tool.Failure](err); ok && f.Unknown {
			l.mu.Lock()
			for _, one := range around {
				one.Unknown = append(one.Unknown, f.Ref.String())
			}
			l.mu.Unlock()
		}
		stop()
	}, nil
}
