package toolcall

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// callIfApproved makes the call if the user approves it. The user is shown exactly
// the bytes that are sent, and approves exactly the tool that is called. lasting means that
// the user may allow further calls.
func (d decider) callIfApproved(ctx context.Context, c call, decision policy.Decision, lasting bool) (answer, error) {
	sum := sha256.Sum256(c.ComparableArgs())
	q := approval.Question{
		Binding: approval.Binding{
			Kind: approval.Call, Execution: c.Execution, Occurrence: c.Occurrence,
			Ref: c.Ref, Schema: catalog.Hash(c.tool.Definition), Arguments: hex.EncodeToString(sum[:]),
		},
		Session: c.Session, Rule: decision.Rule, Reason: decision.Reason, Shown: c.Args,
		Origin: approval.Origin{Origin: c.Origin, Lasting: lasting}, NotBegun: c.notBegun,
	}
	for {
		r, err := d.owner.Home.Approvals.Create(ctx, q)
		if err != nil {
			return answer{}, fault.Wrap(fault.KindOf(err), err, "%s was not called: approval could not be requested: %s", c.Ref,
				fault.Message(err)).
				WithHint("%s", fault.Hint(err))
		}
		if r, err = d.awaitAnswer(ctx, c, r); err != nil {
			return answer{}, err
		}
		switch err := d.useApproval(ctx, c, q.Binding, r); {
		case errors.Is(err, approval.ErrUsed) && c.Execution == "": // by an identical concurrent call
			continue
		case err != nil:
			return answer{}, err
		}
		return d.next.handle(ctx, c)
	}
}

// awaitAnswer wraps askPerson in a telemetry span.
func (d decider) awaitAnswer(ctx context.Context, c call, r approval.Request) (approval.Request, error) {
	if r.State != approval.Open {
		return r, nil
	}
	ctx, span := d.stack.cfg.Telemetry.Start(ctx, telemetry.Approval, telemetry.Facts{})
	r, err := d.askPerson(ctx, c, r)
	span.End(string(r.State))
	return r, err
}

// askPerson returns the request once it is answered, either through the client that
// makes the call or through another way, such as the command line. The first answer
// counts; the other question is withdrawn.
func (d decider) askPerson(ctx context.Context, c call, r approval.Request) (approval.Request, error) {
	if c.Approve == nil {
		return r, needsApproval(c.Call, r, approval.ViaOf(d.owner.Home.Approvals))
	}
	other, err := approval.UntilAnswered(ctx, d.owner.Home.Approvals, r.ID, func(asking context.Context) error {
		reply, err := c.Approve(asking, tool.Approval{ID: r.ID, Ref: c.Ref,
			Question: tool.Question{Text: r.Text(c.tool.TrustedHints), Schema: approval.FormOf(r)}, Asker: r.Asker(), Expires: r.Expires})
		if err == nil {
			_, err = d.owner.Home.Approvals.Answer(ctx, r.ID, approval.ParseReply(reply))
		}
		return err
	})
	if other != nil {
		return *other, nil
	}
	now, wrong := d.owner.Home.Approvals.Find(context.WithoutCancel(ctx), r.ID)
	switch {
	case wrong != nil:
		return r, wrong
	case now.State != approval.Open && now.State != approval.Withdrawn:
		return now, nil
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case fault.KindOf(err) == fault.Unavailable: // the client could not show it
		return r, needsApproval(c.Call, r, approval.ViaOf(d.owner.Home.Approvals))
	}
	return r, fault.Wrap(fault.KindOf(err), err, "%s was not called: approval could not be requested: %s", c.Ref, fault.Message(err))
}

// needsApproval returns the error for a caller that cannot ask; its hint states how
// the user can approve the call.
func needsApproval(c tool.Call, r approval.Request, via approval.Via) error {
	return fault.Wrap(fault.Denied, &approval.Waiting{ID: r.ID}, "%s was not called: it needs approval %s", c.Ref, r.ID).
		WithHint("ask the user to review it with `sandpiper approvals show %s` and to %s; then repeat the same call", r.ID,
			via.Approve(r.ID))
}

// declined is the message about a call that the person has declined, or could not be asked about.
func declined(ref tool.Ref, r approval.Request) string {
	if strings.HasPrefix(r.Note, approval.NotAsked) {
		return ref.String() + " was not called: " + approval.Escape(r.Note)
	}
	message := ref.String() + " was not called: the user declined"
	if r.Note != "" {
		message += ": " + approval.Escape(r.Note)
	}
	return message
}

// useApproval consumes an approval, provided that the tool can still be called and its
// definition is unchanged: the catalog may have changed since the user was asked.
func (d decider) useApproval(ctx context.Context, c call, b approval.Binding, r approval.Request) error {
	switch {
	case r.State == approval.Approved, r.State == approval.Used && c.notBegun:
	case r.State == approval.Denied:
		if err := d.owner.Home.Approvals.ConsumeDenial(ctx, r.ID); err != nil {
			return err
		}
		return &tool.Failure{Ref: c.Ref, Message: declined(c.Ref, r), NotMade: true, Local: true}
	default:
		return fault.New(fault.Denied, "%s was not called: approval %s is %s", c.Ref, r.ID, r.State)
	}
	now := d.stack.cfg.Catalog.For(d.owner.viewer())
	if err := checkCallable(now, c.Ref); err != nil {
		return err
	}
	if t, _ := now.Find(c.Ref); catalog.Hash(t.Definition) != b.Schema {
		return fault.New(fault.Denied, "%s was not called: the tool has changed since approval %s was requested", c.Ref, r.ID).
			WithHint("repeat the call to request a new approval")
	}
	if err := d.checkNow(ctx, c); err != nil || r.State == approval.Used {
		return err
	}
	return d.owner.Home.Approvals.Use(ctx, r.ID, b)
}

// checkNow returns an error if a policy that was loaded while the person was asked blocks the call.
func (d decider) checkNow(ctx context.Context, c call) error {
	decision, err := d.stack.decide(ctx, policyCall(c, d.owner.Home))
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s was not called: policy could not be evaluated: %s", c.Ref, fault.Message(err))
	}
	if decision.Verdict == policy.Block {
		return d.stack.deny(c.Call, d.owner.Home, decision)
	}
	return nil
}
