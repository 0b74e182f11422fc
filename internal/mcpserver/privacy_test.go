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

// Values that the model wrote in a call are not replaced in the answer of that call. They are replaced
// in every other answer.
func TestAnswerKeepsValuesOfItsCall(t *testing.T) {
	for _, mode := range []redact.Mode{redact.Egress, redact.Strict} {
		t.Run(string(mode), func(t *testing.T) {
			scanner, err := detect.New(detect.Config{})
			if err != nil {
				t.Fatal(err)
			}
			rules, err := redact.New(redact.Config{Mode: mode, Scanner: scanner,
				Record: func(context.Context, redact.Transfer) error { return nil }})
			if err != nil {
				t.Fatal(err)
			}
			p := connect(t, newServerOf(t, filepath.Join(t.TempDir(), "data"), mcpserver.Config{Profile: builtin.Standard, Privacy: rules},
				execution.Config{Backend: fake.New(fake.Config{}), Privacy: rules}))
			answer := func(tool string, args any) string {
				text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
					"params": map[string]any{"name": tool, "arguments": args}})
				if err != nil {
					t.Fatal(err)
				}
				p.send(string(text))
				return p.receive().Result.Content[0].Text
			}
			type object = map[string]any
			answer("write_workspace_file", object{"filename": "ada@example.com.txt", "content": "bob@example.com ada@example.com"})
			for _, c := range []struct {
				tool  string
				args  object
				shown []string // of the two addresses
			}{
				{"execute_code", object{"code": `result "ada@example.com bob@example.com"`}, []string{"ada", "bob"}},
				{"execute_code", object{"code": "get a", "context_vars": object{"a": "ada@example.com bob@example.com"}}, nil},
				{"read_workspace_file", object{"filename": "ada@example.com.txt"}, []string{"ada"}},
				{"list_workspace_files", object{}, nil},
				{"sanitize_pii", object{"text": "ada@example.com bob@example.com"}, nil},
			} {
				got := answer(c.tool, c.args)
				for _, who := range []string{"ada", "bob"} {
					want := mode == redact.Egress && strings.Contains(strings.Join(c.shown, " "), who)
					if strings.Contains(got, who+"@example.com") != want {
						t.Errorf("%s %v: %s", c.tool, c.args, got)
					}
				}
			}
		})
	}
}
