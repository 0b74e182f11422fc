package toolcall

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// Permit returns nil if the policy allows an action of Sandpiper's own that is like a call, or if
// the person has approved it. Unless a rule of the policy matches, the person is asked, through
// c.Approve if that is set; otherwise the error states how to approve the call, which is then
// repeated.
func (s *Stack) Permit(ctx context.Context, h *home.Home, c tool.Call) error {
	d := decider{owner: Owner{Home: h}, stack: s.rules()}
	one := call{Call: c}
	decision, err := d.stack.decide(ctx, policyCall(one, h))
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s was not called: policy could not be evaluated: %s", c.Ref, fault.Message(err))
	}
	if decision.Rule == "default" {
		decision = decision.Stricter(policy.Decision{Verdict: policy.Ask, Rule: "default", Reason: "it runs code later, without a client"})
	}
	if decision, err = d.stack.applyGuards(ctx, h, c, decision); err != nil {
		return err
	}
	switch {
	case decision.Verdict == policy.Allow:
		return nil
	case decision.Verdict != policy.Ask || h.Approvals == nil:
		return d.stack.deny(c, h, decision)
	}
	return d.approved(ctx, one, decision)
}

// approved returns nil once the person has approved an action, and consumes the approval.
func (d decider) approved(ctx context.Context, c call, decision policy.Decision) error {
	sum := sha256.Sum256(c.ComparableArgs())
	b := approval.Binding{Kind: approval.Call, Execution: c.Execution, Occurrence: 1, Ref: c.Ref,
		Schema: catalog.Hash(tool.Definition{Ref: c.Ref}), Arguments: hex.EncodeToString(sum[:])}
	r, err := d.owner.Home.Approvals.Create(ctx, approval.Question{Binding: b, Session: c.Session, Rule: decision.Rule,
		Reason: decision.Reason, Shown: c.Args,
		Origin: approval.Origin{Origin: c.Origin}})
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s was not called: approval could not be requested: %s", c.Ref, fault.Message(err)).
			WithHint("%s", fault.Hint(err))
	}
	if r, err = d.awaitAnswer(ctx, c, r); err != nil {
		return err
	}
	switch r.State {
	case approval.Approved:
		return d.owner.Home.Approvals.Use(ctx, r.ID, b)
	case approval.Denied:
		if err := d.owner.Home.Approvals.ConsumeDenial(ctx, r.ID); err != nil {
			return err
		}
		return fault.New(fault.Denied, "%s", declined(c.Ref, r))
	}
	return fault.New(fault.Denied, "%s was not called: approval %s is %s", c.Ref, r.ID, r.State)
}
