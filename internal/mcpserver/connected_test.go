package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
)

// A client with a tool search of its own shows its model the instructions and the names of tools,
// and searches the descriptions.
func TestConnectedServersAreDescribed(t *testing.T) {
	many := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprintf("server%02d", i)] = "list_contacts"
		}
		return all
	}
	long := map[string]string{}
	for c := range 'p' - 'a' {
		long[string('a'+c)+strings.Repeat("_long_name", 60)] = "f"
	}
	for name, test := range map[string]struct {
		servers map[string]string
		want    []string // in the instructions and in the description of execute_code
		not     string
	}{
		"nineteen": {nineteen, []string{"calendar, crm, drive", "weather"}, "more"},
		"forty":    {many(40), []string{"server00, server01", "and "}, "none"},
		"forty-one": {many(41), []string{"41 servers: dev (server00, server03", "crm (server01", "data (server02", "more)"},
			"server00, server01"},
		"long names": {long, []string{"a_long_name", " more"}, "m_long_name"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, profile := range []builtin.Profile{builtin.Lean, builtin.Standard} {
				s := newServerOf(t, t.TempDir(), mcpserver.Config{Profile: profile, Find: servers(t, test.servers)},
					execution.Config{Backend: fake.New(fake.Config{})})
				for _, hello := range []string{
					`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
					`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
				} {
					var got struct{ Result struct{ Instructions string } }
					if err := json.Unmarshal(ask(t, s, hello), &got); err != nil {
						t.Fatal(err)
					}
					instructions := got.Result.Instructions
					if n := tokens.Count(instructions); n > 150 {
						t.Errorf("%d tokens of instructions", n)
					}
					listed := listTools(t, s)[0].Description
					for _, text := range []string{instructions, listed} {
						for _, want := range test.want {
							if !strings.Contains(text, want) {
								t.Errorf("%s: no %q in %q", profile, want, text)
							}
						}
						if strings.Contains(text, test.not) {
							t.Errorf("%s: %q in %q", profile, test.not, text)
						}
					}
				}
			}
		})
	}
}

func TestDescriptionHasTopicsOfTools(t *testing.T) {
	s := newServerOf(t, t.TempDir(), mcpserver.Config{Find: servers(t, nineteen)}, execution.Config{Backend: fake.New(fake.Config{})})
	tools := listTools(t, s)
	for _, topic := range []string{"contacts", "orders", "invoices"} {
		if hint, _ := tools[0].Meta["anthropic/searchHint"].(string); !strings.Contains(hint, topic) {
			t.Errorf("no %s in the search hint %q", topic, hint)
		}
	}
	if !strings.Contains(tools[0].Description, "events") || strings.Contains(tools[0].Description, "list, ") {
		t.Errorf("%s", tools[0].Description)
	}
	for _, tool := range tools {
		load, _ := tool.Meta["anthropic/alwaysLoad"].(bool)
		if want := tool.Name == "execute_code" || tool.Name == "search_tools"; load != want {
			t.Errorf("%s: always loaded: %v", tool.Name, load)
		}
	}
}

// Clients in strict mode send null for each optional argument.
func TestNullIsAnAbsentArgument(t *testing.T) {
	s := newServer(t, builtin.Full)
	for _, tool := range listTools(t, s) {
		var schema struct {
			Properties map[string]json.RawMessage
			Required   []string
		}
		if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		if len(schema.Properties) == 0 {
			continue
		}
		with, without := map[string]any{}, map[string]any{}
		for name := range schema.Properties {
			with[name] = nil
		}
		for _, name := range schema.Required {
			with[name], without[name] = "x", "x"
		}
		if got, want := outcome(t, s, tool.Name, with), outcome(t, s, tool.Name, without); got != want {
			t.Errorf("%s: with null %s, without %s", tool.Name, got, want)
		}
	}
}

var changing = regexp.MustCompile(`"(execution_id|task_id|id|created|[a-z_]*_at|[a-z_]*_ms|duration[a-z_]*)":("[^"]*"|[0-9.]+)|[0-9a-z]{16,}`)

// outcome calls a tool and returns its answer without ids and times.
func outcome(t *testing.T, s *mcpserver.Server, name string, args map[string]any) string {
	t.Helper()
	params, err := json.Marshal(map[string]any{"name": name, "arguments": args, "_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{}}})
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Error  json.RawMessage
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(ask(t, s, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+string(params)+`}`), &answer); err != nil {
		t.Fatal(err)
	}
	text := string(answer.Error)
	for _, c := range answer.Result.Content {
		text += c.Text
	}
	return changing.ReplaceAllString(text, "…")
}
