package mcpserver_test

import (
	"context"
	"encoding/json"
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

// TestRestoreWithoutWritingTokens restores the last answer about an execution, and a file.
func TestRestoreWithoutWritingTokens(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		scanner, err := detect.New(detect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var recorded []redact.Transfer
		rules, err := redact.New(redact.Config{Mode: redact.Egress, Scanner: scanner, Reveal: allowed,
			Record: func(_ context.Context, one redact.Transfer) error { recorded = append(recorded, one); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		p := connect(t, newServerOf(t, filepath.Join(t.TempDir(), "data"), mcpserver.Config{Profile: builtin.Standard, Privacy: rules},
			execution.Config{Backend: fake.New(fake.Config{}), Privacy: rules}))
		answer := func(tool string, args map[string]any) string {
			text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
				"params": map[string]any{"name": tool, "arguments": args}})
			if err != nil {
				t.Fatal(err)
			}
			p.send(string(text))
			return p.receive().Result.Content[0].Text
		}
		ran := answer("execute_code", map[string]any{"code": "get a",
			"context_vars": map[string]any{"a": []string{"ada@example.com", "bob@example.com"}}})
		var of struct {
			ID      string `json:"execution_id"`
			Private string
		}
		if err := json.Unmarshal([]byte(ran), &of); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{true: "; restore_pii is allowed",
			false: "; restore_pii is refused"}[allowed]; !strings.HasSuffix(of.Private, want) || strings.Contains(ran, "ada@") {
			t.Errorf("%s", ran)
		}
		answer("write_workspace_file", map[string]any{"filename": "people.csv", "content": "eve@example.com"})
		recorded = nil
		for _, c := range []struct {
			args   map[string]any
			values []string
			wrong  string
		}{
			{map[string]any{"execution_id": of.ID}, []string{"ada@example.com", "bob@example.com"}, ""},
			{map[string]any{"filename": "people.csv"}, []string{"eve@example.com"}, ""},
			{map[string]any{"execution_id": "exec_x"}, nil, "no answer about execution"},
			{map[string]any{"filename": "none.csv"}, nil, "none.csv"},
			{map[string]any{}, nil, "needs one of text, execution_id and filename"},
			{map[string]any{"text": "a", "filename": "people.csv"}, nil, "needs one of"},
		} {
			got := answer("restore_pii", c.args)
			if !allowed {
				if !strings.Contains(got, "restore_pii is refused") || strings.Contains(got, "@example.com") {
					t.Errorf("%v: %s", c.args, got)
				}
				continue
			}
			if !strings.Contains(got, c.wrong) {
				t.Errorf("%v: %s", c.args, got)
			}
			for _, v := range c.values {
				if !strings.Contains(got, v) {
					t.Errorf("%v: %s", c.args, got)
				}
			}
		}
		n := 0
		for _, one := range recorded {
			if one.Destination == redact.ToModel {
				n += len(one.Tokens)
			}
		}
		if allowed != (n == 3) {
			t.Errorf("allowed %t: %d restored values were recorded", allowed, n)
		}
	}
}
