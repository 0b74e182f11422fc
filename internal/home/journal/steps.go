package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// A step of the code runs a function once: its value is on record when the function has
// returned. While a step runs, it is an entry like a host call, and the calls in it have its
// number. When it has ended, these entries are deleted, because a replay does not run the
// function again. The ended steps of one commit share one row.

// Methods of the entries of steps: one that runs, and the ended ones of one commit.
const (
	methodStep  = "step"
	methodSteps = "steps"
)

const (
	// MaxStepValue is the maximum size of a step's value, in bytes.
	MaxStepValue = 1 << 20

	stepReserve  = 2 * MaxStepValue      // of the limits of a record, for steps that run
	stepInterval = 20 * time.Millisecond // between two commits of steps
	stepBatch    = 1 << 20               // bytes of steps that wait for a commit
)

// StepKey identifies a step in the code of an execution.
type StepKey struct {
	Parent int    `json:"parent"` // number of the step that contains it; 0 for none
	Name   string `json:"name"`
	N      int    `json:"n"` // of the steps of this name in the parent, from 1
}

// StepValue is what is on record of a step that has ended.
type StepValue struct {
	JSON json.RawMessage
	Drew int // random generators that the step used, as the worker reports them
}

// RecordedStep is the record of one step.
type RecordedStep struct {
	Number int        // for EndStep and HostCall
	Value  *StepValue // nil if the step has not ended: it runs
}

// stepGroup is the stored form of ended steps: of one, or of successive ones with the same
// name that made no calls.
type stepGroup struct {
	Parent int               `json:"p,omitempty"`
	Name   string            `json:"k"`
	First  int               `json:"n"`
	Number int               `json:"s,omitempty"` // if steps inside may be on record
	Drew   int               `json:"d,omitempty"`
	Values []json.RawMessage `json:"v"`
}

// stepRecords are the steps of a record. The lock of the record guards it.
type stepRecords struct {
	past    map[StepKey]recordedStep // recorded steps that were not repeated yet
	ended   []stepGroup              // for the next commit
	row     int                      // number of the row for them
	deletes []int                    // numbers of ended steps whose entries are on disk
	parents map[int]bool             // recorded steps that have ended and may contain others
	last    time.Time                // of the last commit of steps
	flush   *time.Timer              // nil if none is scheduled
}

type recordedStep struct {
	StepValue
	row int
}

func (s *stepRecords) pending() bool { return s.ended != nil || s.deletes != nil }

func (s *stepRecords) drop() { s.ended, s.deletes = nil, nil }

func (s *stepRecords) stop() {
	s.drop()
	if s.flush != nil {
		s.flush.Stop()
	}
}

// BeginStep is called when the code reaches a step. It returns the recorded value, or a
// number for the step that runs now. The errors are those of Next, and Exhausted before
// the record becomes too large.
func (r *Record) BeginStep(ctx context.Context, k StepKey) (RecordedStep, error) {
	if r == nil {
		return RecordedStep{}, nil
	}
	r.mu.Lock()
	was, ok := r.steps.past[k]
	if ok {
		delete(r.steps.past, k)
		r.wake()
	}
	full := r.large || r.kept+r.waiting > maxRun-stepReserve
	crowded := r.waiting > maxWaiting-stepReserve
	r.mu.Unlock()
	switch {
	case ok:
		return RecordedStep{Value: &was.StepValue}, nil
	case full:
		return RecordedStep{}, fault.New(fault.Exhausted, "step %.60q was not run: the record of this execution has reached %d of at most %d MiB", k.Name, (maxRun-stepReserve)>>20, maxRun>>20).
			WithHint("return less from each step, process several items in one step, or continue in another execution; what was recorded so far can be resumed")
	case crowded:
		if err := r.Flush(ctx); err != nil {
			return RecordedStep{}, err
		}
	}
	args, err := json.Marshal(k)
	if err != nil {
		return RecordedStep{}, err
	}
	c, err := r.Next(ctx, HostCall{Method: methodStep, Args: args, Step: k.Parent})
	if err == nil && k.Parent != 0 {
		r.mu.Lock()
		if parent := r.open[k.Parent]; parent != nil {
			parent.steps = append(parent.steps, c.Number)
		}
		r.mu.Unlock()
	}
	return RecordedStep{Number: c.Number}, err
}

// EndStep records the value of a step that runs. It is committed when EndStep returns, or
// at most stepInterval later if another step was committed within that time.
func (r *Record) EndStep(ctx context.Context, number int, v StepValue) error {
	if r == nil {
		return nil
	}
	r.waitForLater()
	r.mu.Lock()
	e := r.open[number]
	if e == nil || e.ask.Method != methodStep {
		r.mu.Unlock()
		return fault.New(fault.Invalid, "step %d does not run", number)
	}
	if len(v.JSON) > MaxStepValue || r.large || r.kept+r.waiting+len(v.JSON) > maxRun-MaxStepValue {
		r.mu.Unlock()
		return fault.New(fault.Exhausted, "the value of %s has %d bytes and cannot be recorded: a value has at most %d bytes, and a record %d MiB", e.ask.stepName(), len(v.JSON), MaxStepValue, maxRun>>20)
	}
	r.endStep(e, v)
	if !r.stepsDue() {
		r.scheduleFlush()
		r.mu.Unlock()
		return nil
	}
	return r.commit(ctx, nil, true)
}

// removeStep removes the entries of a step, and of the steps inside that have not ended, since they
// raised an error. It reports whether there may be some on disk. The caller holds the lock.
func (r *Record) removeStep(e *entry) (inside bool) {
	inside = e.stored || e.inner > 0
	for _, number := range e.steps {
		if inner := r.open[number]; inner != nil && inner.ask.Method == methodStep && inner.ask.Step == e.number {
			inside = r.removeStep(inner) || inside
		}
	}
	delete(r.open, e.number)
	r.dirty = slices.DeleteFunc(r.dirty, func(d *entry) bool {
		if d != e && d.ask.Step != e.number {
			return false
		}
		inside = inside || d != e
		r.waiting -= len(d.ask.Args) + len(d.answer) + overhead
		return true
	})
	if e.stored {
		r.steps.deletes = append(r.steps.deletes, e.number)
		r.kept -= e.inner + len(e.ask.Args) + overhead
	}
	return inside
}

// endStep replaces the entries of a step by its value. The caller holds the lock.
func (r *Record) endStep(e *entry, v StepValue) {
	inside := r.removeStep(e)
	var k StepKey
	_ = json.Unmarshal(e.ask.Args, &k) // written by BeginStep
	g := stepGroup{Parent: k.Parent, Name: k.Name, First: k.N, Drew: v.Drew, Values: []json.RawMessage{v.JSON}}
	if inside || r.last > e.number {
		g.Number = e.number
	}
	s := &r.steps
	s.row = e.number
	if n := len(s.ended) - 1; n >= 0 && s.ended[n].precedes(g) {
		s.ended[n].Values = append(s.ended[n].Values, v.JSON)
	} else {
		s.ended = append(s.ended, g)
	}
	r.grow(len(v.JSON) + len(k.Name) + overhead/2)
}

// precedes reports whether h can be appended to g.
func (g stepGroup) precedes(h stepGroup) bool {
	return g.Number == 0 && h.Number == 0 && g.Drew == h.Drew && g.Parent == h.Parent && g.Name == h.Name && g.First+len(g.Values) == h.First
}

// StepsDue reports whether the next EndStep commits.
func (r *Record) StepsDue() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stepsDue() || len(r.later) > 0
}

func (r *Record) stepsDue() bool {
	return time.Since(r.steps.last) >= stepInterval || r.waiting > stepBatch
}

// scheduleFlush commits the ended steps soon, if no other commit does. The caller holds the lock.
func (r *Record) scheduleFlush() {
	s := &r.steps
	if s.flush != nil {
		return
	}
	s.flush = time.AfterFunc(stepInterval, func() {
		r.mu.Lock()
		s.flush = nil
		if r.ended || !s.pending() {
			r.mu.Unlock()
			return
		}
		_ = r.commit(context.Background(), nil, true) // the next commit tries again
	})
}

// endedSteps returns the entry of the ended steps. The caller holds the lock.
func endedSteps(r *Record) entry {
	b, err := json.Marshal(r.steps.ended)
	if err != nil { // cannot happen: the values are JSON
		panic(err)
	}
	return entry{number: r.steps.row, ask: HostCall{Method: methodSteps}, state: answered, answer: b}
}

// deleteSteps deletes the entries of ended steps and of the calls in them. It returns the number
// of bytes deleted.
func deleteSteps(ctx context.Context, tx *store.Tx, execution string, numbers []int) (freed int, err error) {
	const inside = "FROM journal_host_calls WHERE execution = ? AND number >= ? AND (number = ? OR step = ?)"
	for _, n := range numbers {
		var size int
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(sum(length(arguments) + coalesce(length(answer), 0)), 0) "+inside, execution, n, n, n).Scan(&size); err != nil {
			return 0, err
		}
		if _, err := tx.ExecContext(ctx, "DELETE "+inside, execution, n, n, n); err != nil {
			return 0, err
		}
		freed += size
	}
	return freed, nil
}

// recallSteps adds the ended steps of a row to those that the replay returns.
func (r *Record) recallSteps(e *entry) error {
	var groups []stepGroup
	if err := json.Unmarshal(e.answer, &groups); err != nil {
		return err
	}
	s := &r.steps
	if s.past == nil {
		s.past, s.parents = map[StepKey]recordedStep{}, map[int]bool{}
	}
	for _, g := range groups {
		for i, v := range g.Values {
			s.past[StepKey{g.Parent, g.Name, g.First + i}] = recordedStep{StepValue{bytes.Clone(v), g.Drew}, e.number}
		}
		if g.Number != 0 {
			s.parents[g.Number] = true
			r.last = max(r.last, g.Number)
		}
	}
	return nil
}

// dropInner forgets what is on record of ended steps besides their values. A thread that
// outlives its step can record calls after it, and steps in a step share a row with others.
func (r *Record) dropInner() {
	ended := r.steps.parents
	if len(ended) == 0 {
		return
	}
	for k := range r.steps.past {
		if ended[k.Parent] {
			delete(r.steps.past, k)
		}
	}
	r.left = slices.DeleteFunc(r.left, func(e *entry) bool { return ended[e.ask.Step] })
	for k, known := range r.past {
		if left := slices.DeleteFunc(known, func(e *entry) bool { return ended[e.ask.Step] }); len(left) < len(known) {
			r.past[k] = left
		}
	}
	r.clock = nil
	for _, c := range r.clocks {
		if !ended[c.step] {
			r.clock = append(r.clock, c.read...)
		}
	}
}

// firstLeft returns the first recorded call that was not repeated. The caller holds the lock.
func (r *Record) firstLeft() *entry {
	if len(r.left) > 0 {
		return r.left[0]
	}
	var first *entry
	for k, s := range r.steps.past {
		if first == nil || s.row < first.number {
			args, _ := json.Marshal(k)
			first = &entry{number: s.row, ask: HostCall{Method: methodStep, Args: args}}
		}
	}
	return first
}

// stepName describes the step of a call of methodStep.
func (a HostCall) stepName() string {
	var k StepKey
	_ = json.Unmarshal(a.Args, &k)
	return fmt.Sprintf("step %.60q", k.Name)
}
