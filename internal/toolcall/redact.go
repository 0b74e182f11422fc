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
	exit *redact.Exit
}

func (p redactor) handle(ctx context.Context, c call) (answer, error) {
	args, err := p.exit.Restorer().Args(ctx, c.Ref, c.Args)
	if err != nil {
		return answer{}, err
	}
	c.Args = args
	from := p.exit.Ingester().From(c.Ref)
	from.Sent(args)
	a, err := p.next.handle(ctx, c)
	if err != nil {
		return a, redactFailure(ctx, from, err)
	}
	a.Result, err = from.Result(ctx, a.Result)
	return a, err
}

// redactFailure redacts the error message and data of a server.
func redactFailure(ctx context.Context, from redact.Ingester, err error) error {
	said, ok := errors.AsType[*tool.Failure](err)
	if !ok {
		return err
	}
	f := *said
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
