package mcpserver

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
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

// maxEscape is the largest number of bytes in JSON for a byte of a text.
const maxEscape = 6

// checkSizes refuses arguments whose JSON is longer than that of any allowed value, before they are
// decoded. The memory for those of other sizes is part of that for their message.
func checkSizes(name string, params []param, args []byte) error {
	if len(args) <= memory.Small {
		return nil
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.name
	}
	values, ok := rawjson.Members(args, names...)
	if !ok {
		return nil // decode returns the error
	}
	for i, p := range params {
		most := p.most
		if p.kind == text {
			most *= maxEscape
		}
		if p.most > 0 && len(values[i]) > most+2 {
			return fault.New(fault.Invalid, "%s: %s has %d bytes of JSON; at most %d bytes are allowed", name, p.name, len(values[i]), p.most).
				WithHint("write large data to files with write_workspace_file, in parts, and read them in code")
		}
	}
	return nil
}
