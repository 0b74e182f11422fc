package toolcall

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// decider applies the policy decision: it makes, plans, asks about or denies the call.
type decider struct {
	next  layer
	owner Owner
	stack rules
}

func (d decider) handle(ctx context.Context, c call) (answer, error) {
	decision, err := d.stack.decide(ctx, policyCall(c, d.owner.Home))
	if err != nil {
		return answer{}, fault.Wrap(fault.KindOf(err), err, "%s was not called: policy could not be evaluated: %s", c.Ref,
			fault.Message(err))
	}
	decision, lasting, err := applyGrants(ctx, d.stack, d.owner, c, decision)
	if err != nil {
		return answer{}, err
	}
	asks := decision.Verdict == policy.Ask
	switch {
	case decision.Verdict == policy.Allow, asks && d.owner.Approved:
		return d.next.handle(ctx, c)
	case asks && d.owner.Plan != nil: // including read-only tools: the user has not approved them
		return planner(d).add(ctx, c)
	case asks && d.owner.Home.Approvals != nil:
		return d.callIfApproved(ctx, c, decision, lasting)
	}
	return answer{}, d.stack.deny(c.Call, d.owner.Home, decision)
}

// policyCall returns the call in the form that policy evaluates.
func policyCall(c call, home *home.Home) policy.Call {
	return policy.Call{
		Ref: c.Ref, Tenant: home.ID(), Execution: c.Execution, Session: c.Session,
		Hints: c.tool.TrustedHints, Trusted: c.tool.Trusted, Args: c.Args,
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
		WithHint("continue without it, or explain to the user why it is needed; the operator can inspect the decision with `sandpiper "+
			"policy check %s`", c.Ref)
}

// budgetCounter counts the call against the budgets of the policy.
type budgetCounter struct {
	next  layer
	home  *home.Home
	stack rules
}

func (n budgetCounter) handle(ctx context.Context, c call) (answer, error) {
	if err := n.home.Quotas.Check(ctx, quota.Calls); err != nil {
		return answer{}, notCalled(c.Ref, err)
	}
	if d := n.stack.cfg.Policy().Take(policyCall(c, n.home)); d.Verdict != policy.Allow {
		return answer{}, n.stack.deny(c.Call, n.home, d)
	}
	if err := n.home.Quotas.Take(ctx, quota.Calls); err != nil {
		return answer{}, notCalled(c.Ref, err)
	}
	return n.next.handle(ctx, c)
}

// notCalled returns the error of a call for which no quota is left.
func notCalled(ref tool.Ref, err error) error {
	return fault.Wrap(fault.KindOf(err), err, "%s was not called: %s", ref, fault.Message(err)).WithHint("%s", fault.Hint(err))
}
