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
	k, patient := a.key(), r.replay.concurrent
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
	p := &r.replay
	if p.differs != nil {
		return c, nil, p.differs
	}
	if known := p.take(k); known != nil {
		return again(r, known), nil, nil
	}
	switch {
	case p.closed:
		return c, nil, p.diverge(p.notOnRecord(a))
	case p.repeated():
		return RecordedCall{Number: r.pending.add(a).number}, nil, nil
	case patient:
		return c, p.moved, nil
	}
	return c, nil, p.diverge(difference(p.first(), a))
}

// Replays reports whether there are recorded calls that the code has not made again.
func (r *Record) Replays() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.replay.repeated()
}

// again returns the recorded call e. It is open if it has no answer.
func again(r *Record, e *entry) RecordedCall {
	c := RecordedCall{Number: e.number}
	if e.state == answered || e.state == unsure {
		c.Answer = new(Answer)
		if json.Unmarshal(e.answer, c.Answer) == nil {
			return c
		}
		c.Answer = nil
	}
	if r.replay.closed {
		c.Answer = unanswered(e.ask)
		return c
	}
	c.Begun = e.state != asked
	r.pending.open[e.number] = e
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
	return &Divergence{then.number, fault.New(fault.Invalid, "the code does something else than when it ran first: as call %d it %s",
		then.number, what).
		WithHint("it was stopped, and nothing was repeated; files that changed, threads or a changed tool can be why: see what the first " +
			"run did, then run what is left as a new execution")}
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
