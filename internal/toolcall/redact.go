package toolcall

import (
	"context"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// private has tokens stand for their values on the way to a server, where the rules
// let them, and takes what it answers over the border.
type private struct {
	next tool.Caller
	exit *redact.Exit
}

func (p private) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	args, err := p.exit.Restore(ctx, c.Ref, c.Args)
	if err != nil {
		return tool.Result{}, err
	}
	c.Args = args
	res, err := p.next.Call(ctx, c)
	if err != nil {
		return res, p.failed(ctx, err)
	}
	return p.exit.IngestResult(ctx, res)
}

// failed takes what a server said of a failure over the border too.
func (p private) failed(ctx context.Context, err error) error {
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
