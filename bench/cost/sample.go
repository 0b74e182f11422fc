package cost

import (
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// questions asks for some of the catalog's tools, evenly spread over it, in the
// words of their own descriptions: people who do not know these words find less.
func questions(now *catalog.Snapshot, most int) (all []Question) {
	n := len(now.Tools)
	for i := range min(most, n) {
		t := now.Tools[i*n/min(most, n)]
		all = append(all, Question{Text: words(t), Wants: func(server, name string) bool {
			return server == t.Server && name == t.Definition.Tool
		}})
	}
	return all
}

// longestQuestion is how many characters of a description are asked for.
const longestQuestion = 120

// words are the first sentence of a tool's description; its name if it has none.
func words(t catalog.Tool) string {
	text := strings.Join(strings.Fields(t.Description), " ")
	text, _, _ = strings.Cut(text, ". ")
	if utf8.RuneCountInString(text) > longestQuestion {
		text = string([]rune(text)[:longestQuestion])
		text = text[:max(strings.LastIndexByte(text, ' '), 0)]
	}
	if text == "" {
		return strings.ReplaceAll(t.Definition.Tool, "_", " ")
	}
	return text
}
