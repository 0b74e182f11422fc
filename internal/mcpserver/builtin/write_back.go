package builtin

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// CheckBack returns an error if a model writes a text back as it was shown, with images, tags or control
// characters changed, which would break it. A line counts that is shown changed, is among the new lines as
// it was shown, and is not among them as it is.
func CheckBack(gate *redact.Gate, of, before, after string) error {
	written := map[string]bool{}
	for line := range strings.Lines(after) {
		written[strings.TrimRight(line, "\r\n")] = true
	}
	n := 0
	for line := range strings.Lines(before) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if shown := gate.Neutralize(line); shown != line && written[shown] && !written[line] {
			return fault.New(fault.Invalid, "nothing was written: line %d of %s would become %.100q, which is how it was shown: images, "+
				"tags and control characters are changed in answers, so that nothing loads", n, of, shown).
				WithHint("edit the original in code: write_file(f, read_file(f).replace(old, new)); code can also write exactly this text")
		}
	}
	return nil
}
