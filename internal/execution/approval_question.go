package execution

import (
	"context"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// approve asks the person whether the code may make a call. If nobody waits for the
// answer any more the question is taken back, unless the code may be run again, which
// then finds what was answered meanwhile.
func (h *host) approve(ctx context.Context) func(context.Context, tool.Approval) (tool.Reply, error) {
	return func(asking context.Context, a tool.Approval) (tool.Reply, error) {
		_, resolved, _, err := askSchema(a.Schema)
		if err != nil {
			return tool.Reply{}, err
		}
		reply, err := h.put(ctx, asking, Question{Approval: a.ID, From: a.Ref.String(), Text: a.Text, Schema: a.Schema}, resolved)
		elsewhere := asking.Err() != nil && ctx.Err() == nil // answered
		if again := ctx.Err() != nil && h.run.record != nil; err != nil && !elsewhere && !again {
			err = errors.Join(err, h.home.Approvals.Withdraw(context.WithoutCancel(ctx), a.ID))
		}
		return reply, err
	}
}

// notice closes the questions of x that were answered in another way, which who put
// them has not seen yet.
func (x *run) notice(ctx context.Context, home *home.Home) error {
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
			x.questions.shut(q.ID)
		}
	}
	return nil
}
