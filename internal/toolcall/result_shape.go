package toolcall

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// shapeObserver decides how the results of a tool are decoded, consistently for each
// tool, and infers the schema of results for tools that declare none.
type shapeObserver struct {
	next  layer
	home  *home.Home
	stack *Stack
}

func (o shapeObserver) handle(ctx context.Context, c call) (answer, error) {
	a, err := o.next.handle(ctx, c)
	if err != nil || a.File != nil {
		return a, err
	}
	if a.As = o.resultForm(ctx, c.tool.Definition, a.Result); c.tool.Output != nil {
		return a, nil
	}
	if v, ok := a.Value(); ok {
		o.home.Shapes.Observe(c.Ref, v)
	}
	return a, nil
}

// resultForm returns how a result is decoded. A declared schema decides. A tool
// without one that has once returned text that is not JSON returns text from then on.
func (o shapeObserver) resultForm(ctx context.Context, d tool.Definition, res tool.Result) tool.Form {
	switch _, wrapped := d.Returns(); {
	case wrapped && res.Structured != nil, d.Output == nil && res.IsWrapped():
		return tool.AsWrapped
	case d.Output != nil:
		return tool.AsJSON
	case res.Evidence() == tool.TextEvidence:
		o.markText(ctx, d.Ref)
		return tool.AsDefault
	}
	text, err := o.home.Shapes.IsText(ctx, d.Ref)
	switch {
	case err != nil:
		o.stack.cfg.Log.Warn("read the result type of a tool", "tool", d.Ref.String(), "error", err)
	case text:
		return tool.AsText
	}
	return tool.AsDefault
}

// markText persists that a tool returns text, before the first such result is returned.
func (o shapeObserver) markText(ctx context.Context, ref tool.Ref) {
	known, err := o.home.Shapes.IsText(ctx, ref)
	if err == nil && !known {
		err = o.home.Shapes.SetText(context.WithoutCancel(ctx), ref)
	}
	if err != nil {
		o.stack.cfg.Log.Warn("store the result type of a tool", "tool", ref.String(), "error", err)
	}
	if o.stack.cfg.OnTextResult != nil {
		o.stack.cfg.OnTextResult(ref)
	}
}
