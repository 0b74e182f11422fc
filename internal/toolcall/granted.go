package toolcall

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// applyGrants returns the decision on a call after grants, guardrails and hooks. lasting means that a person
// who is asked may allow further calls: only the policy asks, and no hook, which judges each call.
func applyGrants(ctx context.Context, s rules, o Owner, c call, asked policy.Decision) (decision policy.Decision, lasting bool, err error) {
	g, granted, err := findGrant(ctx, o, c, asked)
	if err != nil {
		return asked, false, err
	}
	decision = asked
	if asked.Verdict == policy.Ask {
		decision.Verdict = policy.Allow // so that a hook that asks changes it
	}
	if decision, err = s.applyGuards(ctx, o.Home, c.Call, decision); err != nil {
		return decision, false, err
	}
	switch allowed := decision.Verdict == policy.Allow; {
	case asked.Verdict != policy.Ask:
		return decision, false, nil
	case granted && allowed:
		auditGrant(s, o.Home, c.Call, asked, g)
		return decision, false, nil
	case granted:
		return decision, false, nil
	default:
		return asked, allowed, nil
	}
}

// findGrant returns the grant with which a person has allowed a call that the policy asks about. A grant
// replaces only this question: a call that the policy blocks stays blocked, guardrails and hooks judge
// each call, and a dry run lists the call in its plan.
func findGrant(ctx context.Context, o Owner, c call, d policy.Decision) (g grant.Grant, ok bool, err error) {
	if d.Verdict != policy.Ask || o.Plan != nil || o.Approved || o.Home.Approvals == nil {
		return g, false, nil
	}
	return o.Home.Approvals.Grants.Find(ctx, grant.Call{Ref: c.Ref, Schema: catalog.Hash(c.tool.Definition), Execution: c.Execution,
		Interpreter: c.Origin.Interpreter})
}

// auditGrant records that a grant allowed a call.
func auditGrant(s rules, home *home.Home, c tool.Call, d policy.Decision, g grant.Grant) {
	s.cfg.Audit(audit.Line{
		Kind:      audit.Decision,
		Tenant:    home.ID(),
		Execution: c.Execution,
		Session:   c.Session,
		Server:    c.Server,
		Tool:      c.Tool,
		Decision:  "granted",
		Rule:      d.Rule,
		Approval:  g.ID,
		By:        g.By,
	})
}
