package execution

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// activity counts the calls of an execution, to find out whether it does nothing but wait.
type activity struct {
	mu     sync.Mutex
	calls  int       // in progress, without waits
	last   time.Time // when such a call began or ended
	waits  []*pause
	ending chan struct{} // not nil from when the worker is to be ended; closed if it is not
	load   load
}

// load is the use of the processor by the code, to find out whether threads compute.
type load struct {
	meter sandbox.Meter // nil if the sandbox has none
	at    time.Time     // of the last measurement
	used  time.Duration
}

// The processor time, in percent, from which on code computes, and the shortest and longest time for which it is measured.
const (
	busyPercent  = 5
	shortMeasure = time.Second
	longMeasure  = 3 * time.Second
)

// busy reports whether the code has used the processor since the last call, or whether that is not known yet.
func (l *load) busy() bool {
	if l.meter == nil {
		return false
	}
	now := time.Now()
	since := now.Sub(l.at)
	if since < shortMeasure {
		return true
	}
	before := l.used
	l.at, l.used = now, l.meter.CPUTime()
	return since > longMeasure || (l.used-before)*100 > since*busyPercent
}

// pause is what one call of the code waits for.
type pause struct {
	events   []string
	until    func() time.Time // zero means only an event
	question bool             // of a person
	approval string           // that the question is about; "" for none
	began    time.Time
}

// enter counts a call. While the worker is being ended, it waits for ctx, so that no call is in progress then.
func (a *activity) enter(ctx context.Context) error {
	for {
		a.mu.Lock()
		ending := a.ending
		if ending == nil {
			a.calls++
			a.last = time.Now()
			a.mu.Unlock()
			return nil
		}
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ending:
		}
	}
}

// leave counts the end of a call.
func (a *activity) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls--
	a.last = time.Now()
}

// begin counts a wait.
func (a *activity) begin(p *pause) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waits) == 0 && a.last.IsZero() {
		a.last = time.Now()
	}
	p.began = time.Now()
	a.waits = append(a.waits, p)
}

// end counts the end of a wait. It reports whether the worker is being ended, for an execution that waits.
func (a *activity) end(p *pause) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = slices.DeleteFunc(a.waits, func(o *pause) bool { return o == p })
	return a.ending != nil
}

// endIdle returns what all waits are for, if no call is in progress and none was made for a while: the worker is to be
// ended then, or keep called. With asked false, open questions keep the worker. They also do while they are new, and while
// the code computes.
func (a *activity) endIdle(quiet, grace time.Duration, asked bool) (all []*pause, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ending != nil || a.calls > 0 || time.Since(a.last) < quiet {
		return nil, false
	}
	asks := false
	for _, p := range a.waits {
		asks = asks || p.question
		if p.question && (!asked || time.Since(p.began) < grace) {
			return nil, false
		}
		if at := p.until(); !at.IsZero() && time.Until(at) <= shortWait {
			return nil, false
		}
	}
	if asks && a.load.busy() {
		return nil, false
	}
	a.ending = make(chan struct{})
	return slices.Clone(a.waits), true
}

// keep lets the calls continue, since the worker is not ended.
func (a *activity) keep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.ending)
	a.ending = nil
}

// waitOf returns what a run without a worker waits for, and the approvals among it.
func waitOf(all []*pause) (w journal.Wait, approvals []string) {
	for _, p := range all {
		if at := p.until(); !at.IsZero() && (w.Until.IsZero() || at.Before(w.Until)) {
			w.Until = at
		}
		w.Events = append(w.Events, p.events...)
		if p.approval != "" {
			approvals = append(approvals, p.approval)
		}
	}
	return w, approvals
}
