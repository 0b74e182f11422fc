package cost

import (
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// sampleQueries returns queries for up to most tools, evenly distributed over the
// catalog, in the words of their own descriptions. Other words find fewer tools.
func sampleQueries(now *catalog.Snapshot, most int) (all []Query) {
	n := len(now.Tools)
	for i := range min(most, n) {
		t := now.Tools[i*n/min(most, n)]
		all = append(all, Query{Text: queryText(t), Matches: func(server, name string) bool {
			return server == t.Server && name == t.Definition.Tool
		}})
	}
	return all
}

// maxQuery is the maximum length of a query in characters.
const maxQuery = 120

// queryText returns the first sentence of a tool's description, or its name if it has
// none.
func queryText(t catalog.Tool) string {
	text := strings.Join(strings.Fields(t.Description), " ")
	text, _, _ = strings.Cut(text, ". ")
	if utf8.RuneCountInString(text) > maxQuery {
		text = string([]rune(text)[:maxQuery])
		text = text[:max(strings.LastIndexByte(text, ' '), 0)]
	}
	if text == "" {
		return strings.ReplaceAll(t.Definition.Tool, "_", " ")
	}
	return text
}
