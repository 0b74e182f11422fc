package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// Deny returns the result of a plan that was not approved, and whether the plan can be
// opened again. A denied plan is deleted.
func (p *Plan) Deny(ctx context.Context, err error) (res reply.Result, kept bool, wrong error) {
	res.Status, res.Output = sandbox.Completed, []string{}
	end := again
	if fault.KindOf(err) == fault.Denied {
		end = journal.End{}
		res.Status, res.ErrorType, res.Error = sandbox.Refused, reply.TypePlan, fault.Message(err)
	}
	return res, end.State != "", p.record.End(context.WithoutCancel(ctx), end)
}

// Apply makes the calls until one is not done, and returns the results of those before
// it. interrupted reports that ctx has ended: the plan can be opened again.
// wrong is an error of closing the plan.
func (p *Plan) Apply(ctx context.Context, caller tool.Caller) (res reply.Result, results []any, interrupted bool, wrong error) {
	res.Status, res.Output, results = sandbox.Completed, []string{}, []any{}
	for i, c := range p.Calls {
		s := reply.AppliedCall{Call: i + 1, Ref: c.Ref, State: reply.CallNotMade}
		if len(results) == i {
			value, err := p.call(ctx, caller, c, results)
			if s.State, s.Error = stateOf(err); err == nil {
				results = append(results, value)
			}
		}
		res.Applied = append(res.Applied, s)
	}
	explain(&res)
	end := journal.End{}
	if ctx.Err() != nil {
		end = again
	}
	return res, results, end.State != "", p.record.End(context.WithoutCancel(ctx), end)
}

func stateOf(err error) (state, message string) {
	if err == nil {
		return reply.CallDone, ""
	}
	f, ok := errors.AsType[*tool.Failure](err)
	switch {
	case !ok:
		return reply.CallFailed, fault.Message(err)
	case f.Unknown:
		return reply.CallUnknown, f.Message
	case f.Outcome() == tool.NotMade:
		return reply.CallNotMade, f.Message
	}
	return reply.CallFailed, f.Message
}

// call makes one call and returns its result.
func (p *Plan) call(ctx context.Context, caller tool.Caller, c toolcall.Planned, results []any) (value any, err error) {
	args, err := c.Resolve(results)
	if err != nil {
		return nil, err
	}
	if err := p.check(ctx, p.Subset, c); err != nil {
		return nil, err
	}
	res, err := caller.Call(ctx, tool.Call{Ref: c.Ref, Execution: p.id, Args: args})
	if err != nil {
		return nil, err
	}
	if res.Outcome == tool.Unknown {
		return nil, &tool.Failure{Ref: c.Ref, Unknown: true,
			Message: "it is unknown whether " + c.Ref.String() + " took effect: it was answered with an error of HTTP"}
	}
	answer, ok := res.Value()
	if !ok {
		return res.Text(), nil
	}
	dec := json.NewDecoder(bytes.NewReader(answer))
	dec.UseNumber()
	err = dec.Decode(&value)
	return value, err
}

// explain describes in the result which calls were made if the plan was not applied
// completely.
func explain(res *reply.Result) {
	i := slices.IndexFunc(res.Applied, func(s reply.AppliedCall) bool { return s.State != reply.CallDone })
	if i < 0 {
		return
	}
	s := res.Applied[i]
	what := map[string]string{reply.CallFailed: "failed", reply.CallUnknown: "may have been made",
		reply.CallNotMade: "was not made"}[s.State]
	res.Status, res.ErrorType = sandbox.Raised, reply.TypePlan
	res.Error = fmt.Sprintf("call %d of the plan, %s, %s: %s; made before it and not undone: %d; not made: %d", s.Call, s.Ref, what,
		s.Error, i, len(res.Applied)-i-1)
	res.Hint = "the plan is closed; make a new one for the remaining calls"
}
