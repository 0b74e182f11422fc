package toolcall

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// observed keeps the results of one tool to one type, and learns the shape of those
// of tools that declare none.
type observed struct {
	next  tool.Caller
	home  *home.Home
	stack *Stack
}

func (o observed) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	res, err := o.next.Call(ctx, c)
	if err != nil {
		return res, err
	}
	t, _ := o.stack.cfg.Catalog.Now().Find(c.Ref) // without it nothing is declared
	if res.As = o.form(ctx, t.Definition, c.Ref, res); t.Output != nil {
		return res, nil
	}
	if v, ok := res.Value(); ok {
		o.home.Shapes.Observe(c.Ref, v)
	}
	return res, nil
}

// form is how a result is read. A declared schema decides; a tool without one that
// has answered with text that is no JSON answers with text from then on.
func (o observed) form(ctx context.Context, d tool.Definition, ref tool.Ref, res tool.Result) tool.Form {
	switch _, wrapped := d.Returns(); {
	case wrapped && res.Structured != nil, d.Output == nil && res.IsWrapped():
		return tool.AsWrapped
	case d.Output != nil:
		return tool.AsJSON
	case res.Evidence() == tool.TextEvidence:
		o.setText(ctx, ref)
		return tool.AsDefault
	}
	text, err := o.home.Shapes.IsText(ctx, ref)
	switch {
	case err != nil:
		o.stack.cfg.Log.Warn("the type of a tool's results cannot be read", "tool", ref.String(), "error", err)
	case text:
		return tool.AsText
	}
	return tool.AsDefault
}

// setText keeps that a tool answers with text, before the first such answer is given.
func (o observed) setText(ctx context.Context, ref tool.Ref) {
	known, err := o.home.Shapes.IsText(ctx, ref)
	if err == nil && !known {
		err = o.home.Shapes.SetText(context.WithoutCancel(ctx), ref)
	}
	if err != nil {
		o.stack.cfg.Log.Warn("the type of a tool's results cannot be kept", "tool", ref.String(), "error", err)
	}
	if o.stack.cfg.OnTextResult != nil {
		o.stack.cfg.OnTextResult(ref)
	}
}
