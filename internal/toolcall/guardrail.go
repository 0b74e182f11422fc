package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"unsafe"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// applyGuards checks a call with guardrails and hooks and returns the resulting
// decision, which is never more permissive than d. An error means that the call
// must not be made.
func (s rules) applyGuards(ctx context.Context, home *home.Home, c tool.Call, d policy.Decision) (policy.Decision, error) {
	g := s.guard
	if d.Verdict == policy.Block || g == nil {
		return d, nil
	}
	for _, f := range g.CheckArgs(ctx, c.Args) {
		s.auditGuard(home, c, string(f.Verdict), f.Check)
		if f.Verdict == guardrail.Refuse {
			return d, fault.New(fault.Denied, "%s was not called: %s", c.Ref, f).WithHint("%s", f.Remedy)
		}
	}
	if !g.HasHook(guardrail.BeforeCall) {
		return d, nil
	}
	switch j := g.RunHooks(ctx, event(guardrail.BeforeCall, home, c)); {
	case j.Decision.Action == guardrail.Block:
		s.auditGuard(home, c, string(guardrail.Block), j.Hook)
		return d, blockedError(nil, j, "%s was not called", c.Ref)
	case j.Decision.Action == guardrail.Ask && d.Verdict == policy.Allow:
		return policy.Decision{Verdict: policy.Ask, Rule: j.Hook, Reason: j.Reason}, nil
	}
	return d, nil
}

func event(on guardrail.EventType, home *home.Home, c tool.Call) guardrail.Event {
	return guardrail.Event{
		Type:      on,
		Tenant:    home.ID().String(),
		Execution: c.Execution,
		Session:   c.Session,
		Server:    c.Server,
		Tool:      c.Tool,
		Arguments: c.Args,
	}
}

// errAnswerBlocked is the cause of an error for a call that was made and answered.
var errAnswerBlocked = errors.New("a hook blocked the answer")

func blockedError(cause error, j guardrail.HookDecision, what string, ref tool.Ref) *fault.Error {
	why := ""
	if j.Reason != "" {
		why = ": " + j.Reason
	}
	return fault.Wrap(fault.Denied, cause, what+"%s (%s)", ref, why, j.Hook)
}

// auditGuard records a guardrail's verdict on a call in the audit log.
func (s *Stack) auditGuard(home *home.Home, c tool.Call, word, check string) {
	s.cfg.Audit(audit.Line{
		Kind: audit.Decision, Tenant: home.ID(), Execution: c.Execution, Session: c.Session,
		Server: c.Server, Tool: c.Tool, Decision: word, Rule: "guardrail:" + check,
	})
}

// screener checks a tool's answer with guardrails and hooks; a hook can block it.
type screener struct {
	next  layer
	owner Owner
	stack rules
}

func (s screener) handle(ctx context.Context, c call) (answer, error) {
	a, err := s.next.handle(ctx, c)
	failed, own := errors.AsType[*tool.Failure](err)
	own = own && !failed.Local
	g := s.stack.guard
	if g == nil || err != nil && !own || a.outcome == "" || a.outcome == outcomePlanned { // no answer of a server
		return a, err
	}
	res := a.Result
	if own {
		res = failed.Answer
	}
	flag := func() {
		if kinds := g.InjectionKinds(texts(res, failed)...); len(kinds) > 0 {
			s.stack.auditGuard(s.owner.Home, c.Call, string(guardrail.Flag), guardrail.CheckInjection)
			if s.owner.OnInjection != nil {
				s.owner.OnInjection(c.Ref, kinds)
			}
		}
	}
	if s.owner.Later != nil && isLarge(res) {
		s.owner.Later(flag)
	} else {
		flag()
	}
	if !g.HasHook(guardrail.AfterCall) {
		return a, err
	}
	e := event(guardrail.AfterCall, s.owner.Home, c.Call)
	if own {
		e.Error = failed.Message
	}
	if e.Result, err = json.Marshal(res); err != nil {
		return answer{outcome: a.outcome, duration: a.duration}, err
	}
	if j := g.RunHooks(context.WithoutCancel(ctx), e); j.Decision.Action == guardrail.Block {
		s.stack.auditGuard(s.owner.Home, c.Call, string(guardrail.Block), j.Hook)
		return answer{outcome: a.outcome, duration: a.duration}, blockedError(errAnswerBlocked, j,
			"%s was called, but its answer was blocked", c.Ref).WithHint("the call took effect: do not repeat it to get its answer")
	}
	if own {
		return a, failed
	}
	return a, nil
}

// texts returns all texts of an answer.
func texts(r tool.Result, failed *tool.Failure) []string {
	// a copy of a megabyte takes as long as much of the search
	all := []string{unsafe.String(unsafe.SliceData(r.Structured), len(r.Structured))}
	if failed != nil {
		all = append(all, failed.Message, string(failed.Data))
	}
	for _, p := range r.Parts {
		all = append(all, p.Text, p.Name)
		if p.Kind == tool.Blob { // of a resource; it may be text
			all = append(all, string(p.Data))
		}
	}
	return all
}
