package mcpserver

import (
	"context"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// maxCompared is the size of the largest file that is compared with the text that replaces it.
const maxCompared = 1 << 20

// checkFileBack returns an error if a model writes a file back as it was shown, with images, tags or
// control characters changed, which would break the file. A file that does not exist, is large or is
// not text is not compared.
func checkFileBack(ctx context.Context, h *home.Home, gate *redact.Gate, name, content string) error {
	info, err := h.Workspace.Stat(ctx, name)
	if err != nil || info.Size == 0 || info.Size > maxCompared {
		return nil // writing returns the reason
	}
	if err := holdFile(ctx, h, name, maxCompared); err != nil {
		return err
	}
	p, err := h.Workspace.Read(ctx, name, 0, maxCompared)
	if err != nil || !utf8.Valid(p.Content) {
		return nil
	}
	return builtin.CheckBack(gate, name, string(p.Content), content)
}
