package toolcall

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// remembered answers calls as they were answered when the code ran before, and notes
// what others come to.
type remembered struct {
	next  tool.Caller
	run   *journal.Record
	stack *Stack
}

func (r remembered) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	t, err := r.stack.find(c.Ref)
	if err != nil {
		return tool.Result{}, err
	}
	was, err := r.run.Next(ctx, journal.HostCall{Ref: c.Ref, Args: c.ComparableArgs()})
	if err != nil {
		return tool.Result{}, err
	}
	if was.Answer != nil {
		fateOf(ctx).outcome = replayed
		return result(*was.Answer)
	}
	if c.Number = was.Number; was.Begun && !again(t.TrustedHints) {
		fateOf(ctx).outcome = replayed
		return r.unknown(c)
	}
	res, err := r.next.Call(ctx, c)
	if ctx.Err() == nil { // else the code is not told
		r.run.SetAnswer(c.Number, answer(res, err))
	}
	return res, err
}

// again tells whether a call may be made once more that may have happened.
func again(h tool.Hints) bool { return h.Reads() || h.Idempotent != nil && *h.Idempotent }

// unknown is what code is told of a call that it may have made before.
func (r remembered) unknown(c tool.Call) (tool.Result, error) {
	err := &tool.Failure{Ref: c.Ref, Unknown: true, Message: "it is not known whether " + c.Ref.String() + " happened: Sandpiper ended while it was under way. " +
		"It is not repeated; find out whether it happened before you call it again"}
	r.run.SetAnswer(c.Number, journal.Answer{Failure: err})
	return tool.Result{}, err
}

// answer is what came of a call, for the record. What cannot be written is an
// error of ours, which the record has instead.
func answer(res tool.Result, err error) journal.Answer {
	a, wrong := journal.NewAnswer(res, err)
	if wrong != nil {
		a, _ = journal.NewAnswer(nil, fault.Wrap(fault.Internal, wrong, "the answer of the tool is no JSON"))
	}
	return a
}

// result is what a recorded answer was.
func result(a journal.Answer) (res tool.Result, err error) {
	if err := a.Err(); err != nil {
		return res, err
	}
	if err := json.Unmarshal(a.Value, &res); err != nil {
		return res, fault.Wrap(fault.Internal, err, "the record of the call cannot be read")
	}
	return res, nil
}

// recorded has a call on disk before it is made and after it was answered,
// unless the tool only reads.
type recorded struct {
	next  tool.Caller
	home  *home.Home
	run   *journal.Record
	stack *Stack
}

func (r recorded) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	t, err := r.stack.find(c.Ref)
	if err != nil {
		return tool.Result{}, err
	}
	if t.TrustedHints.Reads() {
		return r.next.Call(ctx, c)
	}
	done, err := r.begin(ctx, c)
	if err != nil {
		return tool.Result{}, fault.Wrap(fault.KindOf(err), err, "%s was not called, since that could not be recorded: %s", c.Ref, fault.Message(err))
	}
	res, err := r.next.Call(ctx, c)
	if wrong := done(context.WithoutCancel(ctx), outcomeOf(err), res, err); wrong != nil {
		r.stack.cfg.Log.Error("record the end of a call", "tool", c.Ref.String(), "error", wrong)
	}
	return res, err
}

// begin records that c begins, and returns what records its end.
func (r recorded) begin(ctx context.Context, c tool.Call) (func(context.Context, journal.Outcome, tool.Result, error) error, error) {
	if r.run == nil {
		id, err := r.home.Journal.Begin(ctx, c)
		return func(ctx context.Context, o journal.Outcome, _ tool.Result, _ error) error {
			return r.home.Journal.Done(ctx, id, o)
		}, err
	}
	waited := ctx
	return func(ctx context.Context, o journal.Outcome, res tool.Result, err error) error {
		if waited.Err() != nil && o == journal.Unknown { // it was cut short, and the code is not told
			return r.run.Done(ctx, c.Number, o, nil)
		}
		a := answer(res, err)
		return r.run.Done(ctx, c.Number, o, &a)
	}, r.run.Begin(ctx, c)
}
