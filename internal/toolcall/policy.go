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

// decider applies the policy decision: it makes, plans, asks about or denies the call.
type decider struct {
	next  tool.Caller
	owner Owner
	stack *Stack
}

func (d decider) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	t, err := d.stack.find(c.Ref)
	if err != nil {
		return tool.Result{}, err
	}
	decision, err := d.stack.decide(ctx, policyCall(c, t, d.owner.Home))
	if err != nil {
		return tool.Result{}, fault.Wrap(fault.KindOf(err), err, "%s was not called: policy could not be evaluated: %s", c.Ref, fault.Message(err))
	}
	if decision, err = d.stack.applyGuards(ctx, d.owner.Home, c, decision); err != nil {
		return tool.Result{}, err
	}
	asks := decision.Verdict == policy.Ask
	switch {
	case decision.Verdict == policy.Allow, asks && d.owner.Approved:
		return d.next.Call(ctx, c)
	case asks && d.owner.Plan != nil: // including read-only tools: the user has not approved them
		return d.owner.Plan.addCall(ctx, c, t)
	case asks && d.owner.Home.Approvals != nil:
		return d.callIfApproved(ctx, c, t, decision)
	}
	return tool.Result{}, d.stack.deny(c, d.owner.Home, decision)
}

// policyCall returns the call in the form that policy evaluates.
func policyCall(c tool.Call, t catalog.Tool, home *home.Home) policy.Call {
	return policy.Call{
		Ref: c.Ref, Tenant: home.ID(), Execution: c.Execution, Session: c.Session,
		Hints: t.TrustedHints, Trusted: t.Trusted, Args: c.Args,
	}
}

// deny records the denial in the audit log and returns it.
func (s *Stack) deny(c tool.Call, home *home.Home, d policy.Decision) error {
	s.cfg.Audit(audit.Line{
		Kind: audit.Decision, Tenant: home.ID(), Execution: c.Execution, Session: c.Session,
		Server: c.Server, Tool: c.Tool, Decision: string(d.Verdict), Rule: d.Rule,
	})
	by := d.Rule
	if d.Reason != "" {
		by += ": " + d.Reason
	}
	return fault.New(fault.Denied, "%s was not called: policy says %s (%s)", c.Ref, d.Verdict, by).
		WithHint("continue without it, or explain to the user why it is needed; the operator can inspect the decision with `sandpiper policy check %s`", c.Ref)
}

// budgetCounter counts the call against the budgets of the policy.
type budgetCounter struct {
	next  tool.Caller
	home  *home.Home
	stack *Stack
}

func (n budgetCounter) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	t, err := n.stack.find(c.Ref)
	if err != nil {
		return tool.Result{}, err
	}
	if d := n.stack.cfg.Policy.Take(policyCall(c, t, n.home)); d.Verdict != policy.Allow {
		return tool.Result{}, n.stack.deny(c, n.home, d)
	}
	return n.next.Call(ctx, c)
}
