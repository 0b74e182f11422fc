package mcpserver

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
)

// withShare returns a context with a share for the answer to a request, and the function that releases it.
func withShare(ctx context.Context, budget *memory.Budget, caller string) (context.Context, func()) {
	share := budget.Open(caller)
	return memory.NewContext(ctx, share), share.Release
}

// holdFile counts up to limit bytes of a file, which is about to be read, in the share of the request.
func holdFile(ctx context.Context, home *home.Home, name string, limit int64) error {
	info, err := home.Workspace.Stat(ctx, name)
	if err != nil {
		return err
	}
	return memory.FromContext(ctx).Answer(ctx, min(limit, info.Size))
}
