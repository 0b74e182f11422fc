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
	next tool.Caller
	exit *redact.Exit
}

func (p redactor) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	args, err := p.exit.Restore(ctx, c.Ref, c.Args)
	if err != nil {
		return tool.Result{}, err
	}
	c.Args = args
	res, err := p.next.Call(ctx, c)
	if err != nil {
		return res, p.redactFailure(ctx, err)
	}
	return p.exit.IngestResult(ctx, res)
}

// redactFailure redacts the error message and data of a server.
func (p redactor) redactFailure(ctx context.Context, err error) error {
	said, ok := errors.AsType[*tool.Failure](err)
	if !ok {
		return err
	}
	f := *said
	var wrong error
	if f.Message, wrong = p.exit.IngestText(ctx, f.Message); wrong != nil {
		return wrong
	}
	if f.Data, wrong = p.exit.IngestJSON(ctx, f.Data); wrong != nil {
		return wrong
	}
	if f.Answer, wrong = p.exit.IngestResult(ctx, f.Answer); wrong != nil {
		return wrong
	}
	return &f
}
