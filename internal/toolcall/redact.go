package toolcall

import (
	"context"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// redactor replaces tokens in arguments by their values, where the privacy rules
// allow it, and redacts results.
type redactor struct {
	next layer
	gate *redact.Gate
	plan *Plan
}

func (p redactor) handle(ctx context.Context, c call) (answer, error) {
	if p.plan != nil && isPlanned(c) && len(c.Args) > maxPlannedBytes { // before they are decoded
		return answer{}, errPlanFull(c)
	}
	args, err := p.gate.Restorer().Args(ctx, c.Ref, c.Args)
	if err != nil {
		return answer{}, err
	}
	c.Args = args
	c.Ask = p.decideAnswers(c)
	from := p.gate.Ingester().From(c.Ref)
	from.Sent(args)
	a, err := p.next.handle(ctx, c)
	if err != nil {
		return a, redactFailure(ctx, from, err)
	}
	a.Result, err = from.Result(ctx, a.Result)
	return a, err
}

// decideAnswers returns c.Ask, with the privacy rules for arguments applied to the answers, which
// are sent to the server.
func (p redactor) decideAnswers(c call) func(context.Context, tool.Question) (tool.Reply, error) {
	if c.Ask == nil {
		return nil
	}
	return func(ctx context.Context, q tool.Question) (tool.Reply, error) {
		reply, err := c.Ask(ctx, q)
		if err != nil || reply.Action != tool.Accept {
			return tool.Reply{Action: reply.Action}, err
		}
		reply.Content, err = p.gate.Restorer().Args(ctx, c.Ref, reply.Content)
		return reply, err
	}
}

// redactFailure redacts the error message and data of a server.
func redactFailure(ctx context.Context, from redact.Ingester, err error) error {
	failed, ok := errors.AsType[*tool.Failure](err)
	if !ok {
		return err
	}
	f := *failed
	var wrong error
	if f.Message, wrong = from.Text(ctx, f.Message); wrong != nil {
		return wrong
	}
	if f.Data, wrong = from.JSON(ctx, f.Data); wrong != nil {
		return wrong
	}
	if f.Answer, wrong = from.Result(ctx, f.Answer); wrong != nil {
		return wrong
	}
	return &f
}
