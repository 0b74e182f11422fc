package passthrough

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// line is one encoded item of a list.
type line struct {
	key  string // sort key; independent of other items
	json json.RawMessage
}

func newLine(server, id string, v any) line {
	b, err := json.Marshal(v)
	if err != nil { // an invalid schema in a catalog file
		b = nil
	}
	return line{key: server + "\x00" + id, json: b}
}

// sorted returns the lines sorted by key, without invalid and duplicate ones.
func sorted(lines []line) []line {
	lines = slices.DeleteFunc(lines, func(l line) bool { return l.json == nil })
	slices.SortStableFunc(lines, func(a, b line) int { return strings.Compare(a.key, b.key) })
	return slices.CompactFunc(lines, func(a, b line) bool { return a.key == b.key })
}

// Limits of one page. Many clients read only the first, so it fits most lists.
const (
	maxLines = 500
	maxBytes = 1 << 20
)

// page returns the lines after a cursor, and the cursor of the next page. The item of a
// cursor need not exist any more.
func page(all []line, cursor string) (items []json.RawMessage, next string, err error) {
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, "", fault.New(fault.Invalid, "the cursor %.80q is none of ours", cursor).
			WithHint("use the nextCursor of the page before")
	}
	start, found := slices.BinarySearchFunc(all, string(after), func(l line, key string) int { return strings.Compare(l.key, key) })
	if found {
		start++
	}
	items = []json.RawMessage{} // not null
	bytes := 0
	for i, l := range all[start:] {
		if bytes += len(l.json); i > 0 && (i == maxLines || bytes > maxBytes) {
			return items, base64.RawURLEncoding.EncodeToString([]byte(all[start+i-1].key)), nil
		}
		items = append(items, l.json)
	}
	return items, "", nil
}
