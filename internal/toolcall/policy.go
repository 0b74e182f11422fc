package toolcall

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// decided lets a call pass that policy allows.
type decided struct {
	next  tool.Caller
	owner Owner
	stack *Stack
}

func (d decided) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	t, err := d.stack.find(c.Ref)
	if err != nil {
		return tool.Result{}, err
	}
	decision, err := d.stack.decide(ctx, judged(c, t, d.owner.Home))
	if err != nil {
		return tool.Result{}, fault.Wrap(fault.KindOf(err), err, "%s was not called, since policy could not decide: %s", c.Ref, fault.Message(err))
	}
	if decision, err = d.stack.tightened(ctx, d.owner.Home, c, decision); err != nil {
		return tool.Result{}, err
	}
	asks := decision.Verdict == policy.Ask
	switch {
	case decision.Verdict == policy.Allow, asks && d.owner.Approved:
		return d.next.Call(ctx, c)
	case asks && d.owner.Plan != nil: // what only reads, too: nobody has been asked yet
		return d.owner.Plan.note(ctx, c, t)
	case asks && d.owner.Home.Approvals != nil:
		return d.asked(ctx, c, t, decision)
	}
	return tool.Result{}, d.stack.against(c, d.owner.Home, decision)
}

// judged is a call as policy sees it.
func judged(c tool.Call, t catalog.Tool, home *home.Home) policy.Call {
	return policy.Call{
		Ref: c.Ref, Tenant: home.ID(), Execution: c.Execution, Session: c.Session,
		Hints: t.TrustedHints, Trusted: t.Trusted, Args: c.Args,
	}
}

// against has it on record that policy did not let a call go on, and says so.
func (s *Stack) against(c tool.Call, home *home.Home, d policy.Decision) error {
	s.cfg.Audit(audit.Line{
		Kind: audit.Decision, Tenant: home.ID(), Execution: c.Execution, Session: c.Session,
		Server: c.Server, Tool: c.Tool, Decision: string(d.Verdict), Rule: d.Rule,
	})
	by := d.Rule
	if d.Reason != "" {
		by += ": " + d.Reason
	}
	return fault.New(fault.Denied, "%s was not called: policy says %s (%s)", c.Ref, d.Verdict, by).
		WithHint("go on without it, or tell the person what it was for; the operator can look with `sandpiper policy check %s`", c.Ref)
}

// counted has the budgets of policy count what is called.
type counted struct {
	next  tool.Caller
	home  *home.Home
	stack *Stack
}

func (n counted) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	t, err := n.stack.find(c.Ref)
	if err != nil {
		return tool.Result{}, err
	}
	if d := n.stack.cfg.Policy.Take(judged(c, t, n.home)); d.Verdict != policy.Allow {
		return tool.Result{}, n.stack.against(c, n.home, d)
	}
	return n.next.Call(ctx, c)
}
