package disguise

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/pii"
)

// wrapped looks for known values that go over the end of a line, with a blank
// less or cut anywhere, as textwrap and pprint have them.
func (f Finder) wrapped(text string) (found []pii.Finding) {
	if f.Known == nil || strings.IndexByte(text, '\n') < 0 {
		return nil
	}
	for _, is := range []string{" ", ""} {
		s := sheet{Finder: f, source: text, loose: true}
		at := 0
		for i := 0; i < len(text); i++ {
			if text[i] != '\n' || i < at {
				continue
			}
			start, end := endOfLine(text, i)
			start = max(start, at)
			s.plain(at, start)
			if is != "" {
				s.put(' ', start, end)
			}
			at = end
		}
		s.plain(at, len(text))
		found = append(found, s.done()...)
	}
	return found
}

// endOfLine returns the ends of the break at i, with what begins the next line; a
// quote that ends a line goes if another begins the next.
func endOfLine(text string, i int) (start, end int) {
	start, end = i, i+1
	if start > 0 && text[start-1] == '\r' {
		start--
	}
	for end < len(text) && strings.IndexByte(" \t>#", text[end]) >= 0 {
		end++
	}
	if q := start - 1; q >= 0 && end < len(text) && text[q] == text[end] && (text[q] == '\'' || text[q] == '"') {
		return q, end + 1
	}
	return start, end
}
