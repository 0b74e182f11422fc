package toolcall

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// tightened is what policy decided after guardrails and hooks had their say, which
// never makes it milder. An error says that the call is not made.
func (s *Stack) tightened(ctx context.Context, home *home.Home, c tool.Call, d policy.Decision) (policy.Decision, error) {
	g := s.cfg.Guard
	if d.Verdict == policy.Block || g == nil {
		return d, nil
	}
	if found := guardrail.Refusals(g.CheckArgs(c.Args)); len(found) > 0 {
		s.guarded(home, c, string(guardrail.Refuse), found[0].Check)
		return d, fault.New(fault.Denied, "%s was not called: %s", c.Ref, found[0]).WithHint("%s", found[0].Remedy)
	}
	if !g.HasHook(guardrail.BeforeCall) {
		return d, nil
	}
	switch j := g.RunHooks(ctx, event(guardrail.BeforeCall, home, c)); {
	case j.Action == guardrail.Block:
		s.guarded(home, c, string(guardrail.Block), j.Hook)
		return d, said(nil, j, "%s was not called", c.Ref)
	case j.Action == guardrail.Ask && d.Verdict == policy.Allow:
		return policy.Decision{Verdict: policy.Ask, Rule: j.Hook, Reason: j.Reason}, nil
	}
	return d, nil
}

func event(on guardrail.EventType, home *home.Home, c tool.Call) guardrail.Event {
	return guardrail.Event{Type: on, Tenant: home.ID().String(), Execution: c.Execution, Session: c.Session, Server: c.Server, Tool: c.Tool, Arguments: c.Args}
}

// errKept is the cause of an error about a call that was answered.
var errKept = errors.New("the answer is kept back")

func said(cause error, j guardrail.HookDecision, what string, ref tool.Ref) *fault.Error {
	why := ""
	if j.Reason != "" {
		why = ": " + j.Reason
	}
	return fault.Wrap(fault.Denied, cause, what+"%s (%s)", ref, why, j.Hook)
}

// guarded keeps in the audit log what a guardrail said of a call.
func (s *Stack) guarded(home *home.Home, c tool.Call, word, check string) {
	s.cfg.Audit(audit.Line{
		Kind: audit.Decision, Tenant: home.ID(), Execution: c.Execution, Session: c.Session,
		Server: c.Server, Tool: c.Tool, Decision: word, Rule: "guardrail:" + check,
	})
}

// screened looks at what a tool answered, and lets hooks keep it back.
type screened struct {
	next  tool.Caller
	owner Owner
	stack *Stack
}

func (s screened) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	res, err := s.next.Call(ctx, c)
	failed, own := errors.AsType[*tool.Failure](err)
	g, outcome := s.stack.cfg.Guard, fateOf(ctx).outcome
	if g == nil || err != nil && !own || outcome == "" || outcome == noted { // no server has answered
		return res, err
	}
	answer := res
	if own {
		answer = failed.Answer
	}
	if kinds := g.InjectionKinds(words(answer, failed)...); len(kinds) > 0 {
		s.stack.guarded(s.owner.Home, c, string(guardrail.Flag), guardrail.CheckInjection)
		if s.owner.OnInjection != nil {
			s.owner.OnInjection(c.Ref, kinds)
		}
	}
	if !g.HasHook(guardrail.AfterCall) {
		return res, err
	}
	e := event(guardrail.AfterCall, s.owner.Home, c)
	if own {
		e.Error = failed.Message
	}
	if e.Result, err = json.Marshal(answer); err != nil {
		return tool.Result{}, err
	}
	if j := g.RunHooks(context.WithoutCancel(ctx), e); j.Action == guardrail.Block {
		s.stack.guarded(s.owner.Home, c, string(guardrail.Block), j.Hook)
		return tool.Result{}, said(errKept, j, "%s was called, and its answer is kept back", c.Ref).WithHint("what the call does has happened: do not make it again for its answer")
	}
	if own {
		return res, failed
	}
	return res, nil
}

// words are all texts of an answer.
func words(r tool.Result, failed *tool.Failure) []string {
	all := []string{string(r.Structured)}
	if failed != nil {
		all = append(all, failed.Message, string(failed.Data))
	}
	for _, p := range r.Parts {
		all = append(all, p.Text, p.Name)
		if p.Kind == tool.Blob { // of a resource, which may be text all the same
			all = append(all, string(p.Data))
		}
	}
	return all
}
