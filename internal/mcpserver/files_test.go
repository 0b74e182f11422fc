package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

// A page of a table that does not begin at its first line must repeat the header, which names the
// columns: a private name is detected by its column.
func TestTablePageHasHeader(t *testing.T) {
	scanner, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := redact.New(redact.Config{Mode: redact.Egress, Scanner: scanner,
		Record: func(context.Context, redact.Transfer) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	p := connect(t, newServerOf(t, filepath.Join(t.TempDir(), "data"), mcpserver.Config{Profile: builtin.Standard, Privacy: rules},
		execution.Config{Backend: fake.New(fake.Config{})}))
	var table strings.Builder
	table.WriteString("id,full_name,city\n")
	for i := range 4000 {
		fmt.Fprintf(&table, "%d,Ada Love%c%c%c,London\n", i, 'a'+i%26, 'a'+i/26%26, 'a'+i/676)
	}
	answer := func(tool string, args any) string {
		text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
			"params": map[string]any{"name": tool, "arguments": args}})
		if err != nil {
			t.Fatal(err)
		}
		p.send(string(text))
		return p.receive().Result.Content[0].Text
	}
	answer("write_workspace_file", map[string]any{"filename": "a.csv", "content": table.String()})
	for _, at := range []int{0, 15_000, 30_000, 60_001, table.Len() - 100} {
		got := answer("read_workspace_file", map[string]any{"filename": "a.csv", "offset": at, "limit": 999})
		if !strings.Contains(got, "[NAME_") || strings.Contains(got, "Love") || !strings.Contains(got, "London") {
			t.Errorf("at %d: %s", at, got)
		}
	}
}
