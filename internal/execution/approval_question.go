package execution

import (
	"context"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// approve asks the user whether the code may make a call. If nothing waits for the
// answer any more, the request is withdrawn, unless the code can be resumed: the
// resumed run then finds the answer.
func (h *host) approve(ctx context.Context) func(context.Context, tool.Approval) (tool.Reply, error) {
	return func(asking context.Context, a tool.Approval) (tool.Reply, error) {
		_, resolved, _, err := formSchema(a.Schema)
		if err != nil {
			return tool.Reply{}, err
		}
		reply, err := h.askPerson(ctx, asking, Question{Approval: a.ID, From: a.Ref.String(), Text: a.Text, Schema: a.Schema}, resolved)
		elsewhere := asking.Err() != nil && ctx.Err() == nil // answered in another way
		if again := ctx.Err() != nil && h.run.record != nil; err != nil && !elsewhere && !again {
			err = errors.Join(err, h.home.Approvals.Withdraw(context.WithoutCancel(ctx), a.ID))
		}
		return reply, err
	}
}

// closeAnswered closes the questions of x about approvals that were answered in
// another way, such as on the command line.
func (x *run) closeAnswered(ctx context.Context, home *home.Home) error {
	open, _ := x.questions.open()
	for _, q := range open {
		if q.Approval == "" {
			continue
		}
		r, err := home.Approvals.Find(ctx, q.Approval)
		if err != nil {
			return err
		}
		if r.State != approval.Open {
			x.questions.closeByID(q.ID)
		}
	}
	return nil
}
