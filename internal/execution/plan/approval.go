package plan

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Asker asks the user a question and waits for the answer until ctx ends.
type Asker func(context.Context, approval.Request) (tool.Reply, error)

// RequireApproval asks the user to approve all calls of the plan at once. It returns a
// Denied error if they decline. An answer given before, for example to a daemon that
// has stopped since, counts.
func (p *Plan) RequireApproval(ctx context.Context, store *approval.Store, ask Asker) error {
	if store == nil {
		return fault.New(fault.Unavailable, "the plan was not applied: it cannot be approved here")
	}
	shown, err := json.Marshal(number(p.Calls))
	if err != nil {
		return err
	}
	q := approval.Question{
		Binding: approval.Binding{Kind: approval.Plan, Execution: p.id, Arguments: p.hash()},
		Rule:    "plan", Shown: shown,
	}
	r, err := store.Create(ctx, q)
	if err == nil && r.State == approval.Open {
		r, err = awaitApproval(ctx, store, r, ask)
	}
	if err != nil {
		return err
	}
	switch r.State {
	case approval.Approved:
		return store.Use(ctx, r.ID, q.Binding)
	case approval.Denied:
		why := ""
		if r.Note != "" {
			why = ": " + approval.Escape(r.Note)
		}
		return fault.New(fault.Denied, "the user declined the plan; none of its calls was made%s", why)
	}
	return fault.New(fault.Denied, "the plan was not approved in time; none of its calls was made")
}

// awaitApproval asks the caller of the plan and returns the request once it is
// answered, by the caller or in another way.
func awaitApproval(ctx context.Context, store *approval.Store, r approval.Request, ask Asker) (approval.Request, error) {
	other, err := approval.UntilAnswered(ctx, store, r.ID, func(asking context.Context) error {
		answer, err := ask(asking, r)
		given := approval.ParseReply(answer)
		if err == nil && given.Unattended() {
			return fault.New(fault.Unavailable, "none of the plan's calls was made: %s", approval.Escape(given.Note)).
				WithHint("%s, then `sandpiper executions resume %s` applies the plan", fault.Approve(r.ID), r.Execution)
		}
		if err == nil {
			_, err = store.Answer(ctx, r.ID, given)
		}
		return err
	})
	if other != nil {
		return *other, nil
	}
	if ctx.Err() != nil {
		if !errors.Is(context.Cause(ctx), reply.ErrStopping) { // the caller has gone
			_ = store.Withdraw(context.WithoutCancel(ctx), r.ID)
		}
		return r, context.Cause(ctx)
	}
	now, wrong := store.Find(ctx, r.ID)
	if wrong == nil && now.State != approval.Open {
		return now, nil
	}
	return r, errors.Join(err, wrong)
}
