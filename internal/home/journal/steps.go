package journal

import (
	"context"
	"encoding/json"
	"fmt"
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

// StepValue is the recorded value of a step that has ended.
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

// BeginStep is called when the code reaches a step. It returns the recorded value, or a
// number for the step that runs now. The errors are those of Next, and Exhausted before
// the record becomes too large.
func BeginStep(ctx context.Context, r *Record, k StepKey) (RecordedStep, error) {
	if r == nil {
		return RecordedStep{}, nil
	}
	r.mu.Lock()
	was, ok := r.replay.takeStep(k)
	p := &r.pending
	full, crowded := p.large || p.kept+p.waiting > maxRun-stepReserve, p.waiting > maxWaiting-stepReserve
	r.mu.Unlock()
	switch {
	case ok:
		return RecordedStep{Value: &was.StepValue}, nil
	case full:
		return RecordedStep{}, fault.New(fault.Exhausted, "step %.60q was not run: the record of this execution has reached %d of at "+
			"most %d MiB", k.Name, (maxRun-stepReserve)>>20, maxRun>>20).
			WithHint("return less from each step, process several items in one step, or continue in another execution; what was recorded " +
				"so far can be resumed")
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
		if parent := r.pending.open[k.Parent]; parent != nil {
			parent.steps = append(parent.steps, c.Number)
		}
		r.mu.Unlock()
	}
	return RecordedStep{Number: c.Number}, err
}

// EndStep records the value of a step that runs. It is committed when EndStep returns, or
// at most stepInterval later if another step was committed within that time.
func EndStep(ctx context.Context, r *Record, number int, v StepValue) error {
	if r == nil {
		return nil
	}
	r.waitForLater()
	r.mu.Lock()
	e := r.pending.open[number]
	if e == nil || e.ask.Method != methodStep {
		r.mu.Unlock()
		return fault.New(fault.Invalid, "step %d does not run", number)
	}
	if len(v.JSON) > MaxStepValue || r.pending.large || r.pending.kept+r.pending.waiting+len(v.JSON) > maxRun-MaxStepValue {
		r.mu.Unlock()
		return fault.New(fault.Exhausted, "the value of %s has %d bytes and cannot be recorded: a value has at most %d bytes, and a "+
			"record %d MiB", e.ask.stepName(), len(v.JSON), MaxStepValue, maxRun>>20)
	}
	r.pending.endStep(e, v)
	if !r.pending.stepsDue() {
		scheduleFlush(r)
		r.mu.Unlock()
		return nil
	}
	return r.commit(ctx, nil, true)
}

// precedes reports whether h can be appended to g.
func (g stepGroup) precedes(h stepGroup) bool {
	return g.Number == 0 && h.Number == 0 && g.Drew == h.Drew && g.Parent == h.Parent && g.Name == h.Name &&
		g.First+len(g.Values) == h.First
}

// StepsDue reports whether the next EndStep commits.
func StepsDue(r *Record) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending.stepsDue() || len(r.later) > 0
}

func (p *pending) stepsDue() bool {
	return time.Since(p.steps.last) >= stepInterval || p.waiting > stepBatch
}

// scheduleFlush commits the ended steps soon, if no other commit does. The caller holds the lock.
func scheduleFlush(r *Record) {
	s := &r.pending.steps
	if s.flush != nil {
		return
	}
	s.flush = time.AfterFunc(stepInterval, func() {
		r.mu.Lock()
		s.flush = nil
		if r.pending.ended || !s.exist() {
			r.mu.Unlock()
			return
		}
		_ = r.commit(context.Background(), nil, true) // the next commit tries again
	})
}

// deleteSteps deletes the entries of ended steps and of the calls in them. It returns the number
// of bytes deleted.
func deleteSteps(ctx context.Context, tx *store.Tx, execution string, numbers []int) (freed int, err error) {
	const inside = "FROM run_events WHERE execution = ? AND number >= ? AND (number = ? OR step = ?)"
	for _, n := range numbers {
		var size int
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(sum(length(arguments) + coalesce(length(answer), 0)), 0) "+inside, execution, n,
			n, n).Scan(&size); err != nil {
			return 0, err
		}
		if _, err := tx.ExecContext(ctx, "DELETE "+inside, execution, n, n, n); err != nil {
			return 0, err
		}
		freed += size
	}
	return freed, nil
}

// stepName describes the step of a call of methodStep.
func (a HostCall) stepName() string {
	var k StepKey
	_ = json.Unmarshal(a.Args, &k)
	return fmt.Sprintf("step %.60q", k.Name)
}
