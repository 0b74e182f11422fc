package redact_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Tool definitions contain no personal data: no name or title in one is replaced, even
// without a catalog.
func TestToolDefinitionsAreNotRedacted(t *testing.T) {
	e := newRig(t, redact.Config{Mode: redact.Egress}).gate()
	tools := definitions(t)
	names := 0
	for chunk := range chunks(tools, 10) {
		left := redacted(t, e, map[string]any{"tools": chunk})
		if strings.Contains(left, "[NAME_") {
			names++
			t.Logf("%.300s", left[max(0, strings.Index(left, "[NAME_")-200):])
		}
	}
	if names > 0 {
		t.Errorf("%[2]d groups of ten of %[1]d definitions have a NAME", len(tools), names)
	}
}

func chunks(all []any, n int) func(func([]any) bool) {
	return func(yield func([]any) bool) {
		for len(all) > 0 {
			k := min(n, len(all))
			if !yield(all[:k]) {
				return
			}
			all = all[k:]
		}
	}
}

// definitions returns the development data: answers to tools/list, and a catalog with
// human-readable names.
func definitions(t *testing.T) (all []any) {
	const data = "../../../../shared/data/"
	lists, _ := filepath.Glob(data + "toolslists/*.json")
	for _, name := range lists {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Tools []any }
		if json.Unmarshal(b, &list) == nil {
			all = append(all, list.Tools...)
		}
	}
	f, err := os.Open(data + "search/tools.jsonl.gz")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no definitions in " + data)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var one struct {
			Tool, Server, Description string
			Input                     any `json:"input_schema"`
		}
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, map[string]any{"name": one.Tool, "server": one.Server, "description": one.Description, "inputSchema": one.Input})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
