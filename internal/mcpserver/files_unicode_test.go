package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

func newPrivateServer(t *testing.T, data string) *peer {
	t.Helper()
	scanner, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := redact.New(redact.Config{Mode: redact.Egress, Scanner: scanner,
		Record: func(context.Context, redact.Transfer) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, newServerOf(t, data, mcpserver.Config{Profile: builtin.Standard, Privacy: rules},
		execution.Config{Backend: fake.New(fake.Config{})}))
}

func TestCursorOfResourcesIsRedacted(t *testing.T) {
	p := newPrivateServer(t, filepath.Join(t.TempDir(), "data"))
	for i := range 101 {
		p.write(fmt.Sprintf("%03d of ada@example.com.txt", i), "x")
	}
	if cursor := p.ask("resources/list", nil).Result.NextCursor; !strings.Contains(cursor, "[EMAIL_") {
		t.Errorf("cursor %q", cursor)
	}
}

// Files that editors and spreadsheets write in UTF-16 are text, in pages of any size.
func TestUnicodeFilesAreRedacted(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := newPrivateServer(t, data)
	p.write("wide.csv", "x")
	var paths []string
	err := filepath.WalkDir(data, func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) == "wide.csv" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	var table strings.Builder
	table.WriteString("\ufeffid,full_name,mail,city\n")
	for i := range 4000 {
		fmt.Fprintf(&table, "%d,Иван Love%c%c%c,ivan.%d@corp.example,Löndon 😀\n", i, 'a'+i%26, 'a'+i/26%26, 'a'+i/676, i)
	}
	for _, name := range []string{"utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"} {
		u, _ := encoded.UnicodeNamed(name)
		b, err := u.Encode(table.String())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(paths[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
		offset, text := 0, ""
		for pages := 0; ; pages++ {
			line, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
				"name": "read_workspace_file", "arguments": map[string]any{"filename": "wide.csv", "offset": offset, "limit": 100_001}}})
			p.send(string(line))
			answer := p.receive().Result.Content[0].Text
			var page struct {
				Content, Encoding string
				Offset            int
				Next              int `json:"next_offset"`
			}
			if err := json.Unmarshal([]byte(answer), &page); err != nil || page.Encoding != name || pages > 50 || page.Offset > offset {
				t.Fatalf("%s at %d: %v in %.300s", name, offset, err, answer)
			}
			text += page.Content
			if offset = page.Next; offset == 0 {
				break
			}
		}
		if strings.Contains(text, "Love") || strings.Contains(text, "@corp") || strings.ContainsRune(text, '\ufffd') {
			i := max(strings.Index(text, "Love"), strings.Index(text, "@corp"), strings.IndexRune(text, '\ufffd'))
			t.Errorf("%s: %.200q", name, text[max(0, i-50):])
		}
		if n := strings.Count(text, "Löndon 😀"); n != 4000 {
			t.Errorf("%s: %d lines", name, n)
		}
		if r := p.ask("resources/read", map[string]string{"uri": "workspace://wide.csv"}); len(r.Result.Contents) != 1 ||
			!strings.Contains(r.Result.Contents[0].Text, "[EMAIL_") ||
			strings.Contains(r.Result.Contents[0].Text, "@corp") {
			t.Errorf("%s: %.300v", name, r)
		}
	}
}
