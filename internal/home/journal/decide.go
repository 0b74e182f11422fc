package journal

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Undecided ends a replay at a call of the first run whose outcome is unknown.
type Undecided struct {
	Stopped bool // a person has ended the execution for good; otherwise no decision was made
	fault   *fault.Error
}

func (u *Undecided) Error() string { return u.fault.Error() }

// Unwrap returns the message for the caller.
func (u *Undecided) Unwrap() error { return u.fault }

// Decide applies a decision about a call whose outcome is unknown, which is on disk when Decide
// returns. It returns the answer of the call, or nil if the code shall make it. The error is an
// *Undecided if the execution ends.
func Decide(ctx context.Context, r *Record, number int, d tool.Decision) (*Answer, error) {
	r.mu.Lock()
	e := unknownCall(r, number)
	if e == nil {
		defer r.mu.Unlock()
		return nil, noUnknownCall(r, number)
	}
	switch d.Outcome {
	case tool.TookEffect:
		a, err := NewAnswer(tool.Result{Structured: d.Answer}, nil)
		if err != nil {
			r.mu.Unlock()
			return nil, err
		}
		r.pending.open[number] = e
		r.pending.answer(e, a)
		return &a, r.commit(ctx, nil, false)
	case tool.NoEffect:
		e.state = asked
		r.pending.mark(e)
		return nil, r.commit(ctx, nil, false)
	}
	r.mu.Unlock()
	return nil, undecided(r.id, e, d.Outcome == tool.Stop)
}

// unknownCall returns the call with a number, nil unless its outcome is unknown. The caller holds the
// lock.
func unknownCall(r *Record, number int) *entry {
	e := r.pending.open[number]
	if i := slices.IndexFunc(r.replay.left, func(e *entry) bool { return e.number == number }); e == nil && i >= 0 {
		e = r.replay.left[i]
	}
	if e == nil || e.state != begun {
		return nil
	}
	return e
}

// noUnknownCall returns the error of a decision about another call. The caller holds the lock.
func noUnknownCall(r *Record, number int) error {
	err := fault.New(fault.NotFound, "call %d of execution %s has no unknown outcome", number, r.id)
	if all := unknownCalls(r); len(all) > 0 {
		return err.WithHint("the outcome of call %s is unknown", strings.Join(all, ", "))
	}
	return err.WithHint("`sandpiper executions resume %s` makes the calls that are left", r.id)
}

func unknownCalls(r *Record) (all []string) {
	for _, e := range r.replay.left {
		if e.state == begun && e.ask.Method == "" {
			all = append(all, strconv.Itoa(e.number))
		}
	}
	return all
}

// UnknownCalls returns the numbers of the calls whose outcome is unknown and that were not repeated.
func UnknownCalls(r *Record) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return unknownCalls(r)
}

func undecided(id string, e *entry, stopped bool) *Undecided {
	if stopped {
		return &Undecided{true, fault.New(fault.Denied, "the execution was stopped, since it is unknown whether call %d, of %s, "+
			"took effect", e.number, e.ask)}
	}
	answer := "sandpiper executions answer " + id + " " + strconv.Itoa(e.number)
	return &Undecided{false, fault.New(fault.Unavailable, "it is unknown whether call %d, of %s, took effect: the execution ended during "+
		"the call, before its answer", e.number, e.ask).
		WithHint("find out, then run `%s done` if it took effect, `%s not-done` if the execution shall make it, or `%s stop` to end the "+
			"execution; then resume it again", answer, answer, answer)}
}

// AsAnswer returns a person's text as the answer of a call: JSON, or a string.
func AsAnswer(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil { // a string
		panic(err)
	}
	return quoted
}
