// Package shape summarises JSON that is too large for a reply: its type and counts, its
// keys or columns with statistics, and its first rows, in a few kilobytes.
//
// Its functions do no I/O, have no state, are safe for concurrent use, and return the
// same summary for the same input. They scan the input once or twice, refer to it instead
// of copying it, and use bounded memory. They do not validate: invalid JSON causes an
// error or an incomplete summary, never a panic.
package shape

import (
	"encoding/json"
	"fmt"

	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
)

// DefaultBytes is the default limit of the size of a Preview.
const DefaultBytes = 4096

// Preview describes one JSON value. Fields that do not apply are absent.
type Preview struct {
	Type  string `json:"type"`            // object, array, string, integer, number, boolean or null
	Count *int   `json:"count,omitempty"` // items of an array, keys of an object
	Chars *int   `json:"chars,omitempty"` // characters of a string
	Bytes int    `json:"bytes,omitempty"` // its JSON, for a long value within another

	Value json.RawMessage `json:"value,omitempty"` // the value, abridged, if it is a scalar

	Keys     []Key `json:"keys,omitempty"`      // of an object, in order
	MoreKeys int   `json:"more_keys,omitempty"` // keys not listed

	Items       *Stats            `json:"items,omitempty"`        // of an array, over its items
	Columns     []Column          `json:"columns,omitempty"`      // of the objects in an array, in order of first occurrence
	MoreColumns int               `json:"more_columns,omitempty"` // columns not listed; at least
	First       []json.RawMessage `json:"first,omitempty"`        // the first items of an array, abridged
}

// Key is one key of an object.
type Key struct {
	Name string `json:"name"`
	Preview
}

// Column is one key in all objects of an array.
type Column struct {
	Name string `json:"name"`
	Stats
}

// Stats are statistics of many values.
type Stats struct {
	Type     string   `json:"type,omitempty"`    // "integer", or several as "integer|string"; nulls are counted apart
	Nulls    int      `json:"nulls,omitempty"`   // values that are null
	Missing  int      `json:"missing,omitempty"` // objects without the key
	Min      *float64 `json:"min,omitempty"`     // of the numbers
	Max      *float64 `json:"max,omitempty"`
	Mean     *float64 `json:"mean,omitempty"`
	Distinct int      `json:"distinct,omitempty"`      // distinct strings
	Over     int      `json:"distinct_over,omitempty"` // instead of Distinct: the count exceeds this number
	Values   []string `json:"values,omitempty"`        // the distinct strings, if they are few and short
}

// Describe summarises b, one JSON value. The Preview marshals to at most limit bytes; 0
// means DefaultBytes, less than 256 means 256. cut returns a prefix of a text, of at most
// n bytes; nil cuts between characters.
func Describe(b []byte, limit int, cut func(text string, n int) string) (Preview, error) {
	if limit == 0 {
		limit = DefaultBytes
	}
	limit = max(limit, 256)
	start := rawjson.Space(b, 0)
	end, err := rawjson.ValueEnd(b, start)
	if err != nil {
		return Preview{}, err
	}
	if rest := rawjson.Space(b, end); rest != len(b) {
		return Preview{}, fmt.Errorf("shape: more than one value, the second at byte %d", rest)
	}
	f, err := gather(b[start:end], &budget{hashes: 100_000}, 2)
	if err != nil {
		return Preview{}, err
	}
	return fit(f, limit, cut), nil
}

// fit renders f in the finest detail that fits in limit bytes.
func fit(f *facts, limit int, cut func(string, int) string) Preview {
	for _, d := range details {
		d.cut = cut
		p := f.preview(d)
		if j, err := json.Marshal(p); err == nil && len(j) <= limit {
			return p
		}
	}
	return f.preview(detail{cut: cut})
}

// detail is how much of the facts a Preview shows.
type detail struct {
	rows    int                             // first items of an array
	columns int                             // columns and keys listed
	text    int                             // characters of a string or name
	items   int                             // items and keys within a row
	depth   int                             // levels within a row
	values  bool                            // lists few different strings
	cut     func(text string, n int) string // nil means anywhere
}

// details, finest first. The last levels keep one row, which is most informative.
var details = []detail{
	{rows: 5, columns: 40, text: 200, items: 12, depth: 3, values: true},
	{rows: 3, columns: 40, text: 120, items: 12, depth: 2, values: true},
	{rows: 3, columns: 30, text: 80, items: 8, depth: 2, values: true},
	{rows: 2, columns: 20, text: 60, items: 8, depth: 1, values: true},
	{rows: 2, columns: 14, text: 40, items: 5, depth: 1},
	{rows: 1, columns: 9, text: 30, items: 4, depth: 1},
	{rows: 1, columns: 5, text: 24, items: 3},
	{rows: 1, columns: 2, text: 16, items: 2},
	{columns: 1, text: 12},
}
