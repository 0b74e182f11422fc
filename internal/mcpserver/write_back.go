package mcpserver

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
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
	return checkBack(gate, name, string(p.Content), content)
}

// checkBack is checkFileBack for a text that replaces another. A line counts that is shown changed, is
// among the new lines as it was shown, and is not among them as it is.
func checkBack(gate *redact.Gate, of, before, after string) error {
	written := map[string]bool{}
	for line := range strings.Lines(after) {
		written[strings.TrimRight(line, "\r\n")] = true
	}
	n := 0
	for line := range strings.Lines(before) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if shown := gate.Neutralize(line); shown != line && written[shown] && !written[line] {
			return fault.New(fault.Invalid, "nothing was written: line %d of %s would become %.100q, which is how it was shown: images, tags and control characters are changed in answers, so that nothing loads", n, of, shown).
				WithHint("edit the original in code: write_file(f, read_file(f).replace(old, new)); code can also write exactly this text")
		}
	}
	return nil
}
