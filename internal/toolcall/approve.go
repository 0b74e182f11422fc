package toolcall

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// asked makes a call if a person says so. What they are shown is the very bytes
// that are sent, and the tool the one that is called.
func (d decided) asked(ctx context.Context, c tool.Call, t catalog.Tool, decision policy.Decision) (tool.Result, error) {
	sum := sha256.Sum256(c.ComparableArgs())
	q := approval.Question{
		Binding: approval.Binding{
			Kind: approval.Call, Execution: c.Execution, Occurrence: c.Occurrence,
			Ref: c.Ref, Schema: catalog.Hash(t.Definition), Arguments: hex.EncodeToString(sum[:]),
		},
		Session: c.Session, Rule: decision.Rule, Reason: decision.Reason, Shown: c.Args,
	}
	for {
		r, err := d.owner.Home.Approvals.Create(ctx, q)
		if err != nil {
			return tool.Result{}, fault.Wrap(fault.KindOf(err), err, "%s was not called, since nobody could be asked: %s", c.Ref, fault.Message(err)).
				WithHint("%s", fault.Hint(err))
		}
		if r, err = d.awaited(ctx, c, t, r); err != nil {
			return tool.Result{}, err
		}
		switch err := d.use(ctx, c, q.Binding, r); {
		case errors.Is(err, approval.ErrUsed) && c.Execution == "": // by the same call, made beside this one
			continue
		case err != nil:
			return tool.Result{}, err
		}
		return d.next.Call(ctx, c)
	}
}

// awaited is answered, of which telemetry is told while somebody is asked.
func (d decided) awaited(ctx context.Context, c tool.Call, t catalog.Tool, r approval.Request) (approval.Request, error) {
	if r.State != approval.Open {
		return r, nil
	}
	ctx, span := d.stack.cfg.Telemetry.Start(ctx, telemetry.Approval, telemetry.Facts{})
	r, err := d.answered(ctx, c, t, r)
	span.End(string(r.State))
	return r, err
}

// answered returns the request once somebody has answered it: the person that the
// call can ask, or one who is found in another way. Whoever is first counts, and the
// other is asked no longer.
func (d decided) answered(ctx context.Context, c tool.Call, t catalog.Tool, r approval.Request) (approval.Request, error) {
	if c.Approve == nil {
		return r, unasked(c, r)
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	elsewhere := make(chan approval.Request, 1)
	go func() {
		defer close(elsewhere)
		defer stop()
		if r, err := d.owner.Home.Approvals.Wait(asking, r.ID); err == nil {
			elsewhere <- r
		}
	}()
	reply, err := c.Approve(asking, tool.Approval{ID: r.ID, Ref: c.Ref, Question: tool.Question{Text: r.Text(t.TrustedHints), Schema: json.RawMessage(approval.Form)}})
	if err == nil {
		_, err = d.owner.Home.Approvals.Answer(ctx, r.ID, approval.ParseReply(reply))
	}
	stop()
	if other, ok := <-elsewhere; ok {
		return other, nil
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
		return r, unasked(c, r)
	}
	return r, fault.Wrap(fault.KindOf(err), err, "%s was not called, since nobody could be asked: %s", c.Ref, fault.Message(err))
}

// unasked tells whoever calls how the person can be asked.
func unasked(c tool.Call, r approval.Request) error {
	return fault.New(fault.Denied, "%s was not called: it needs approval %s of the person", c.Ref, r.ID).
		WithHint("ask them to look at it with `sandpiper approvals show %s` and to run `sandpiper approvals approve %s`; then make the same call again", r.ID, r.ID)
}

// use uses an approval up, if it is one, for a tool that is still what it was.
func (d decided) use(ctx context.Context, c tool.Call, b approval.Binding, r approval.Request) error {
	switch r.State {
	case approval.Approved:
	case approval.Denied:
		if err := d.owner.Home.Approvals.ConsumeDenial(ctx, r.ID); err != nil {
			return err
		}
		f := &tool.Failure{Ref: c.Ref, Message: c.Ref.String() + " was not called: the person declined"}
		if r.Note != "" {
			f.Message += ": " + approval.Escape(r.Note)
		}
		return f
	default:
		return fault.New(fault.Denied, "%s was not called: nobody has approved it in time, and approval %s is %s", c.Ref, r.ID, r.State)
	}
	t, err := d.stack.find(c.Ref)
	if err != nil {
		return err
	}
	if catalog.Hash(t.Definition) != b.Schema {
		return fault.New(fault.Denied, "%s was not called: the tool has changed since approval %s was asked for", c.Ref, r.ID).
			WithHint("make the call again to ask anew")
	}
	return d.owner.Home.Approvals.Use(ctx, r.ID, b)
}
