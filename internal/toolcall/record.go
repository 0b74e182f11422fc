package toolcall

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// replayer returns the recorded answer of a call that was made in an earlier run of
// the code, and records the answers of new calls.
type replayer struct {
	next  layer
	run   *journal.Record
	stack *Stack
}

func (r replayer) handle(ctx context.Context, c call) (answer, error) {
	was, err := r.run.Next(ctx, journal.HostCall{Ref: c.Ref, Args: c.ComparableArgs(), Step: sandbox.StepOf(ctx)})
	if err != nil {
		return answer{}, err
	}
	if was.Answer != nil {
		res, err := recordedResult(*was.Answer)
		return answer{Result: res, outcome: outcomeReplayed}, err
	}
	c.notBegun = !was.Begun
	if c.Number = was.Number; was.Begun && !c.tool.TrustedHints.Repeatable() {
		if c.Decide == nil {
			return answer{outcome: outcomeReplayed}, r.unknown(c.Call)
		}
		known, err := r.decide(ctx, c.Call)
		if err != nil {
			return answer{outcome: outcomeReplayed}, err
		}
		if known != nil {
			res, err := recordedResult(*known)
			return answer{Result: res, outcome: outcomeReplayed}, err
		}
	}
	c.Ask = numberQuestions(c.Ask, c.Number)
	a, err := r.next.handle(ctx, c)
	err = markCancelled(ctx, asFailure(c.Ref, cmp.Or(a.outcome, outcomeRefused), err))
	if (ctx.Err() == nil || cancelled(ctx)) && !a.recorded { // with an ended context the code does not see the answer
		set := func() { r.run.SetAnswer(c.Number, journalAnswer(c, a.Result, err)) }
		if isLarge(a.Result) {
			r.run.Later(set)
		} else {
			set()
		}
	}
	return a, err
}

// numberQuestions returns ask, with the position of each question in the call.
func numberQuestions(ask func(context.Context, tool.Question) (tool.Reply, error), call int) func(context.Context,
	tool.Question) (tool.Reply, error) {
	if ask == nil {
		return nil
	}
	var n atomic.Int64
	return func(ctx context.Context, q tool.Question) (tool.Reply, error) {
		q.Of = fmt.Sprintf("%d.%d", call, n.Add(1))
		return ask(ctx, q)
	}
}

// decide asks the person about a call that may have been made in an earlier run. It returns the answer
// of the call, or nil if it shall be made.
func (r replayer) decide(ctx context.Context, c tool.Call) (*journal.Answer, error) {
	d, err := c.Decide(ctx, c.Number, c.Ref, c.Args)
	if err != nil {
		return nil, err
	}
	return journal.Decide(ctx, r.run, c.Number, d)
}

// unknown returns the failure of a call that may have been made in an earlier run, about which no person
// can be asked.
func (r replayer) unknown(c tool.Call) error {
	err := &tool.Failure{Ref: c.Ref, Unknown: true, Message: "it is unknown whether " + c.Ref.String() +
		" took effect: the execution ended during the call, before its answer. " +
		"It was not repeated; check whether it took effect before you call it again"}
	r.run.SetAnswer(c.Number, journal.Answer{Failure: err})
	return err
}

// journalAnswer converts the outcome of a call for the record. If that is impossible,
// the record contains an internal error instead.
func journalAnswer(c call, res tool.Result, err error) journal.Answer {
	a, wrong := journal.NewAnswer(res, err)
	if wrong != nil {
		a, _ = journal.NewAnswer(nil, fault.Wrap(fault.Internal, wrong, "the result of the tool cannot be encoded as JSON"))
	}
	a.Definition = definitionHash(c.tool)
	return a
}

// definitionHash identifies the schema of a tool's arguments.
func definitionHash(t catalog.Tool) string {
	sum := sha256.Sum256(t.Input)
	return hex.EncodeToString(sum[:8])
}

// CheckRecorded returns a *journal.Divergence if a tool that the record has calls of cannot be called any
// more, or has changed.
func (s *Stack) CheckRecorded(ctx context.Context, viewer catalog.Viewer, record *journal.Record) error {
	for _, ref := range journal.Tools(record) {
		resolved, _, err := s.resolve(ctx, viewer, tool.Call{Ref: ref})
		if fault.KindOf(err) == fault.Unavailable { // the call itself reports that
			continue
		}
		if err := journal.CheckTool(record, ref, definitionHash(resolved.tool), err); err != nil {
			return err
		}
	}
	return nil
}

// recordedResult converts a recorded answer back into the outcome of a call.
func recordedResult(a journal.Answer) (res tool.Result, err error) {
	if err := a.Err(); err != nil {
		return res, err
	}
	if err := json.Unmarshal(a.Value, &res); err != nil {
		return res, fault.Wrap(fault.Internal, err, "the record of the call cannot be read")
	}
	return res, nil
}

// recorder writes a call to disk before it is made and after it is answered, unless
// the tool is read-only. A large answer is written while the code uses it.
type recorder struct {
	next  layer
	home  *home.Home
	run   *journal.Record
	stack *Stack
}

func (r recorder) handle(ctx context.Context, c call) (answer, error) {
	if c.tool.TrustedHints.Reads() {
		return r.next.handle(ctx, c)
	}
	done, err := r.begin(ctx, c)
	if err != nil {
		return answer{}, fault.Wrap(fault.KindOf(err), err, "%s was not called: the call could not be recorded: %s", c.Ref,
			fault.Message(err))
	}
	a, err := r.next.handle(ctx, c)
	end := func() {
		if wrong := done(context.WithoutCancel(ctx), journal.Outcome(a.outcome), a.Result, err); wrong != nil {
			r.stack.cfg.Log.Error("record the end of a call", "tool", c.Ref.String(), "error", wrong)
		}
	}
	a.recorded = r.run != nil
	if a.recorded && isLarge(a.Result) {
		r.run.Later(end)
	} else {
		end()
	}
	return a, err
}

// begin records the start of c, and returns a function that records its end.
func (r recorder) begin(ctx context.Context, c call) (func(context.Context, journal.Outcome, tool.Result, error) error, error) {
	if r.run == nil {
		id, err := r.home.Journal.Begin(ctx, c.Call)
		return func(ctx context.Context, o journal.Outcome, _ tool.Result, _ error) error {
			return r.home.Journal.Done(ctx, id, o)
		}, err
	}
	waited := ctx
	return func(ctx context.Context, o journal.Outcome, res tool.Result, err error) error {
		// interrupted; the code does not see the answer
		if f, ok := errors.AsType[*tool.Failure](err); waited.Err() != nil && ok && f.Local && !f.Withheld && !f.Cancelled {
			return r.run.Done(ctx, c.Number, o, nil)
		}
		a := journalAnswer(c, res, err)
		return r.run.Done(ctx, c.Number, o, &a)
	}, r.run.Begin(ctx, c.Call)
}
