package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Next is called for each host call of the code, in order. It returns the recorded call, or a
// new number if the call is not on record.
//
// It returns a *Divergence if the code makes a call that is not on record while recorded calls
// have not been made again. The record has no gaps before its last call, so sequential code
// diverges at its first different call. Concurrent code may make a new call in one thread
// while other threads still repeat recorded ones: Next then waits for those, and reports a
// divergence if none is repeated for Config.ReorderTimeout.
func (r *Record) Next(ctx context.Context, a HostCall) (RecordedCall, error) {
	if r == nil {
		return RecordedCall{}, nil
	}
	k, patient := a.key(), r.concurrent
	for {
		c, moved, err := r.next(a, k, patient)
		if moved == nil {
			return c, err
		}
		timer := time.NewTimer(r.log.cfg.ReorderTimeout)
		select {
		case <-moved:
		case <-timer.C:
			patient = false
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		timer.Stop()
		if err != nil {
			return RecordedCall{}, err
		}
	}
}

// next is one attempt of Next. If it returns moved, the caller retries after moved is closed.
func (r *Record) next(a HostCall, k key, patient bool) (c RecordedCall, moved chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch known := r.past[k]; {
	case r.differs != nil:
		return c, nil, r.differs
	case len(known) > 0:
		return r.again(known[0], k), nil, nil
	case r.closed:
		r.differs = r.notOnRecord(a)
		return c, nil, r.differs
	case r.repeated():
		r.last++
		e := &entry{number: r.last, ask: a, state: asked}
		r.open[e.number] = e
		r.mark(e)
		return RecordedCall{Number: e.number}, nil, nil
	case patient:
		return c, r.moved, nil
	}
	r.differs = difference(r.firstLeft(), a)
	r.wake()
	return c, nil, r.differs
}

// wake makes the calls that wait in Next try again. The caller holds the lock.
func (r *Record) wake() {
	close(r.moved)
	r.moved = make(chan struct{})
}

// Replays reports whether there are recorded calls that the code has not made again.
func (r *Record) Replays() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.repeated()
}

// repeated reports whether all recorded calls and steps were repeated. The caller holds the lock.
func (r *Record) repeated() bool { return len(r.left) == 0 && len(r.steps.past) == 0 }

// again returns the recorded call e and removes it from the calls not yet repeated.
func (r *Record) again(e *entry, k key) RecordedCall {
	r.past[k] = r.past[k][1:]
	if r.left[0] == e {
		r.left = r.left[1:]
	} else {
		r.left = without(r.left, e)
	}
	r.wake()
	c := RecordedCall{Number: e.number}
	if e.state == answered || e.state == unsure {
		c.Answer = new(Answer)
		if json.Unmarshal(e.answer, c.Answer) == nil {
			return c
		}
		c.Answer = nil
	}
	if r.closed {
		c.Answer = unanswered(e.ask)
		return c
	}
	c.Begun = e.state != asked
	r.open[e.number] = e
	return c
}

// Divergence is the error of a replay whose code makes another call than the recorded one. It
// names tools and arguments but contains no value.
type Divergence struct {
	Number int // of the call, in the recorded execution
	fault  *fault.Error
}

func (d *Divergence) Error() string { return d.fault.Error() }

// Unwrap returns the message for the caller.
func (d *Divergence) Unwrap() error { return d.fault }

func difference(then *entry, now HostCall) *Divergence {
	what := fmt.Sprintf("asks for %s, and the first run asked for %s", now, then.ask)
	if now.Method == then.ask.Method && now.Ref == then.ask.Ref && now.Method != methodStep {
		what = fmt.Sprintf("asks for %s with %s than the first run", now, changedArguments(now.Args, then.ask.Args))
	}
	return &Divergence{then.number, fault.New(fault.Invalid, "the code does something else than when it ran first: as call %d it %s", then.number, what).
		WithHint("it was stopped, and nothing was repeated; files that changed, threads or a changed tool can be why: see what the first run did, then run what is left as a new execution")}
}

// changedArguments names the arguments whose values changed.
func changedArguments(now, then json.RawMessage) string {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(now, &a) != nil || json.Unmarshal(then, &b) != nil {
		return "other arguments"
	}
	var names []string
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%.60q", name)
	}
	if len(names) == 0 {
		return "the same arguments more often"
	}
	return "another value of " + strings.Join(names[:min(len(names), 10)], ", ")
}
