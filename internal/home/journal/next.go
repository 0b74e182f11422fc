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

// Next is called with each thing that the code asks for, in that order. It returns
// what the record knows of it: nothing, if the code asks for it for the first time.
//
// A *Difference says that the code does something else than it did before: it
// asks for what no earlier run asked for, while something that one did ask for is
// still to come. What an earlier run had asked for before the last thing that is on
// record is all on record; so code that does one thing after the other differs as
// soon as it asks for anything else. Code that does several things at once may
// ask for something new in one thread while others still catch up with the
// record: Next then waits until they have, and takes it for a difference if for
// Config.Patience none has come any nearer.
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

// next is one try of Next; moved is closed when another is worth while.
func (r *Record) next(a HostCall, k key, patient bool) (c RecordedCall, moved chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch known := r.past[k]; {
	case r.differs != nil:
		return c, nil, r.differs
	case len(known) > 0:
		return r.again(known[0], k), nil, nil
	case len(r.left) == 0:
		r.last++
		e := &entry{number: r.last, ask: a, state: asked}
		r.open[e.number] = e
		r.mark(e)
		return RecordedCall{Number: e.number}, nil, nil
	case patient:
		return c, r.moved, nil
	}
	r.differs = difference(r.left[0], a)
	close(r.moved)
	r.moved = make(chan struct{})
	return c, nil, r.differs
}

// again takes e out of what is still to come.
func (r *Record) again(e *entry, k key) RecordedCall {
	r.past[k] = r.past[k][1:]
	r.left = without(r.left, e)
	close(r.moved)
	r.moved = make(chan struct{})
	c := RecordedCall{Number: e.number}
	if e.state == answered {
		c.Answer = new(Answer)
		if json.Unmarshal(e.answer, c.Answer) == nil {
			return c
		}
		c.Answer = nil
	}
	c.Begun = e.state != asked
	r.open[e.number] = e
	return c
}

// Divergence says that code asks for something else than it did the first time. It
// names what is asked for, and no value.
type Divergence struct {
	Number int // of the call, in the first run
	said   *fault.Error
}

func (d *Divergence) Error() string { return d.said.Error() }

// Unwrap returns what may be shown.
func (d *Divergence) Unwrap() error { return d.said }

func difference(then *entry, now HostCall) *Divergence {
	what := fmt.Sprintf("asks for %s, and the first run asked for %s", now, then.ask)
	if now.Method == then.ask.Method && now.Ref == then.ask.Ref {
		what = fmt.Sprintf("asks for %s with %s than the first run", now, differing(now.Args, then.ask.Args))
	}
	return &Divergence{then.number, fault.New(fault.Invalid, "the code does something else than when it ran first: as call %d it %s", then.number, what).
		WithHint("it was stopped, and nothing was repeated; files that changed, threads or a changed tool can be why: see what the first run did, then run what is left as a new execution")}
}

// differing names the arguments that are not the same.
func differing(now, then json.RawMessage) string {
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
