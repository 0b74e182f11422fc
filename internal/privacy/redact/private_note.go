package redact

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// privateNote states how many values a text shows as tokens, by type, and whether the model may
// restore them; "" if there are none.
func privateNote(text string, canReveal bool) string {
	seen, counts := map[vault.Token]bool{}, map[detect.Type]int{}
	for _, at := range vault.FindTokens(text) {
		token := vault.Token(text[at.Start:at.End])
		if t := token.Type(); t != "" && !seen[token] {
			seen[token] = true
			counts[t]++
		}
	}
	if len(seen) == 0 {
		return ""
	}
	types := slices.SortedFunc(maps.Keys(counts), func(a, b detect.Type) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b))
	})
	list := make([]string, len(types))
	for i, t := range types {
		list[i] = fmt.Sprintf("%s %d", t, counts[t])
	}
	what := "values shown as tokens"
	if len(seen) == 1 {
		what = "value shown as a token"
	}
	restoring := "refused"
	if canReveal {
		restoring = "allowed"
	}
	return fmt.Sprintf("%d %s: %s; restore_pii is %s", len(seen), what, strings.Join(list, ", "), restoring)
}
