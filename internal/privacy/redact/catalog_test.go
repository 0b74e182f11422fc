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

// Definitions of tools are nobody's data: no name or title of one is replaced, also
// where no catalog says that it is one.
func TestToolDefinitionsAreNotRedacted(t *testing.T) {
	e := newRig(t, redact.Config{Mode: redact.Egress}).exit()
	tools := definitions(t)
	names := 0
	for chunk := range chunks(tools, 10) {
		left := sealed(t, e, map[string]any{"tools": chunk})
		if strings.Contains(left, "[NAME_") {
			names++
			t.Logf("%.300s", left[max(0, strings.Index(left, "[NAME_")-200):])
		}
	}
	if names > 0 {
		t.Errorf("of %d definitions in tens %d have names", len(tools), names)
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

// definitions are those of our development data: of tools/list, and of a catalog with
// names as people write them.
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
		t.Skip("there are no definitions at " + data)
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
