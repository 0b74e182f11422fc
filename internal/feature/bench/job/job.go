// Package job has the work that benchmarks compare, and its data.
package job

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// Code is Python code that filters and aggregates the records in the file PATH,
// which is a placeholder. It assigns the result to `found`.
const Code = `import json
with open(PATH) as f:
    rows = json.load(f)
active = [r for r in rows if r["status"] == "active" and r["amount"] > 100]
by = {}
for r in active:
    by.setdefault(r["region"], []).append(r["amount"])
found = {k: [len(v), round(sum(v) / len(v), 2), max(v)] for k, v in sorted(by.items())}
`

// WriteRecords writes 100,000 records, 20 MB of JSON.
func WriteRecords(file string) error {
	var w bytes.Buffer
	w.WriteString("[")
	for i := range 100_000 {
		if i > 0 {
			w.WriteString(",\n")
		}
		fmt.Fprintf(&w, `{"id":%d,"status":%q,"region":%q,"amount":%d.%02d,"customer":"customer-%05d","note":%q}`, i,
			[]string{"active", "closed", "new"}[i%3], []string{"north", "south", "east", "west"}[i%4], i%997, i%100, i%5000,
			strings.Repeat("lorem ipsum ", 6+i%5))
	}
	w.WriteString("]")
	return os.WriteFile(file, w.Bytes(), 0o644)
}
