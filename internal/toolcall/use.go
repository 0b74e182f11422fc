package toolcall

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home/learned"
)

// useRecorder records which tools are called after a search.
type useRecorder struct {
	next layer
	uses *learned.Store // nil if they are not recorded
}

func (u useRecorder) handle(ctx context.Context, c call) (answer, error) {
	a, err := u.next.handle(ctx, c)
	if err == nil {
		u.uses.AddCall(c.Ref)
	}
	return a, err
}
