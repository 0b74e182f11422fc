package execution

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// permit has the person approve all calls of a plan, once. It is Denied if they did
// not. What they have said already, before Sandpiper ended say, counts.
func (c *carrying) permit(ctx context.Context) error {
	store := c.home.Approvals
	if store == nil {
		return fault.New(fault.Unavailable, "the plan was not carried out: nobody can be asked to approve it here")
	}
	shown, err := json.Marshal(numbered(c.plan.Calls))
	if err != nil {
		return err
	}
	q := approval.Question{
		Binding: approval.Binding{Kind: approval.Plan, Execution: c.x.id, Arguments: c.plan.hash()},
		Rule:    "plan", Shown: shown,
	}
	r, err := store.Create(ctx, q)
	if err == nil && r.State == approval.Open {
		r, err = c.ask(ctx, r)
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
		return fault.New(fault.Denied, "the person declined the plan; none of its calls was made%s", why)
	}
	return fault.New(fault.Denied, "nobody has approved the plan in time; none of its calls was made")
}

// ask puts the request to whoever waits for the plan, and returns it once it was
// answered, by them or in another way.
func (c *carrying) ask(ctx context.Context, r approval.Request) (approval.Request, error) {
	store := c.home.Approvals
	asking, stop := context.WithCancel(ctx)
	defer stop()
	elsewhere := make(chan approval.Request, 1)
	go func() {
		defer close(elsewhere)
		defer stop()
		if r, err := store.Wait(asking, r.ID); err == nil {
			elsewhere <- r
		}
	}()
	reply, err := c.put(asking, r)
	if err == nil {
		_, err = store.Answer(ctx, r.ID, approval.ParseReply(reply))
	}
	stop()
	if other, ok := <-elsewhere; ok {
		return other, nil
	}
	if ctx.Err() != nil {
		if !errors.Is(context.Cause(ctx), errStopping) { // nobody waits for it any more
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

func (c *carrying) put(ctx context.Context, r approval.Request) (Reply, error) {
	schema, resolved, _, err := askSchema(json.RawMessage(approval.Form))
	if err != nil {
		return Reply{}, err
	}
	one, err := c.x.questions.add(Question{ID: r.ID, Approval: r.ID, Text: r.Text(tool.Hints{}), Schema: schema}, resolved, c.exit)
	if err != nil {
		return Reply{}, err
	}
	defer c.x.questions.remove(one)
	c.x.tell()
	return one.wait(ctx)
}
