package toolcall

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// shapeObserver decides how a result is decoded, and infers the schema of results for tools that
// declare none.
type shapeObserver struct {
	next layer
	home *home.Home
}

func (o shapeObserver) handle(ctx context.Context, c call) (answer, error) {
	a, err := o.next.handle(ctx, c)
	if err != nil || a.File != nil {
		return a, err
	}
	if a.As = resultForm(c.tool.Definition, a.Result); c.tool.Output != nil {
		return a, nil
	}
	if v, ok := a.Value(); ok {
		o.home.Shapes.Observe(c.Ref, v)
	}
	return a, nil
}

// resultForm returns how a result is decoded. A declared schema decides; without one each result is
// decoded by itself, so that one sentence does not change the type of the others.
func resultForm(d tool.Definition, res tool.Result) tool.Form {
	switch _, wrapped := d.Returns(); {
	case wrapped && res.Structured != nil, d.Output == nil && res.IsWrapped():
		return tool.AsWrapped
	case d.Output != nil:
		return tool.AsJSON
	}
	return tool.AsDefault
}
