package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// scenarios are all that the suites have for a client, less those of OAuth and
// of extensions, with the checks that pass in each.
var scenarios = map[string]map[string]int{
	"@modelcontextprotocol/conformance": {"initialize": 1, "tools_call": 1, "sse-retry": 3, "elicitation-sep1034-client-defaults": 0},
	"conformance-0.2": {
		"initialize": 1, "tools_call": 2, "sse-retry": 3, "elicitation-sep1034-client-defaults": 0, "request-metadata": 5, "http-standard-headers": 10,
		"http-custom-headers": 18, "http-invalid-tool-headers": 12, "json-schema-ref-no-deref": 1, "json-schema-2020-12-preservation": 9,
		"sep-2322-client-request-state": 2,
	},
}

// lacking are the scenarios for clients that ask a person, which we never do.
var lacking = []string{"elicitation-sep1034-client-defaults", "sep-2322-client-request-state"}

// TestConformance lets the suites try a client that goes through a Set.
func TestConformance(t *testing.T) {
	m := wiretest.Installed(t, "@modelcontextprotocol/conformance", "conformance-0.2")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for suite, wanted := range scenarios {
		t.Run(strings.TrimPrefix(suite, "@modelcontextprotocol/"), func(t *testing.T) {
			t.Parallel()
			got := map[string]int{}
			for _, scenario := range slices.Sorted(maps.Keys(wanted)) {
				passed, failed := try(t, m, suite, scenario, exe)
				got[scenario] = passed
				if len(failed) > 0 && !slices.Contains(lacking, scenario) {
					t.Errorf("%s: %s", scenario, strings.Join(failed, "\n"))
				}
			}
			if d := cmp.Diff(wanted, got); d != "" {
				t.Errorf("checks passed (-want +got):\n%s", d)
			}
		})
	}
}

// try runs one scenario and returns the checks that passed and those that did
// not.
func try(t *testing.T, m wiretest.Modules, suite, scenario, exe string) (passed int, failed []string) {
	home := t.TempDir()
	out, _ := m.Run(t, home, m.Path(suite+"/dist/index.js"), "client", "--command", exe+" conformance-client", "--scenario", scenario, "-o", "results", "--verbose")
	files, _ := filepath.Glob(filepath.Join(home, "results", "*", "checks.json"))
	if len(files) != 1 {
		deeper, _ := filepath.Glob(filepath.Join(home, "results", "*", "*", "checks.json"))
		files = append(files, deeper...)
	}
	if len(files) != 1 {
		t.Fatalf("%s left %d results:\n%s", scenario, len(files), out)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var checks []struct{ ID, Status, ErrorMessage string }
	if err := json.Unmarshal(data, &checks); err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		switch c.Status {
		case "SUCCESS":
			passed++
		case "FAILURE", "WARNING":
			failed = append(failed, c.ID+": "+c.ErrorMessage)
		}
	}
	return passed, failed
}

// conform is the client: it does with a server all that there is to do.
func conform(url string) int {
	s, err := upstream.New(upstream.Config{Servers: []upstream.Server{{Name: "s", URL: url}}, Client: "test-client", Version: "1"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.Close()
	ctx := context.Background()
	wishes := wished()
	for _, c := range wishes { // before any list: what wants headers has to be found out
		_, _ = s.Call(ctx, c)
	}
	l, err := s.List(ctx, "s")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if wishes == nil {
		for _, c := range calls(l.Tools) {
			_, _ = s.Call(ctx, c)
		}
	}
	if all, err := s.ListResources(ctx, "s"); err == nil && len(all) > 0 {
		_, _ = s.ReadResource(ctx, "s", all[0].URI)
	}
	if all, err := s.ListPrompts(ctx, "s"); err == nil && len(all) > 0 {
		_, _ = s.Prompt(ctx, "s", all[0].Name, map[string]string{})
	}
	return 0
}

// wished are the calls that a suite wishes for.
func wished() (calls []tool.Call) {
	var wish struct {
		ToolCalls []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &wish)
	for _, w := range wish.ToolCalls {
		calls = append(calls, tool.Call{Ref: tool.Ref{Server: "s", Tool: w.Name}, Args: w.Arguments})
	}
	return calls
}

// calls are one of each tool.
func calls(tools []tool.Definition) (calls []tool.Call) {
	schemas := map[string]json.RawMessage{}
	for _, d := range tools {
		schemas[d.Tool] = d.Input
		args := json.RawMessage(`{"region":"us-west1"}`)
		switch d.Tool {
		case "add_numbers":
			args = json.RawMessage(`{"a":5,"b":3}`)
		case "json_schema_2020_12_tool":
			continue
		case "json_schema_echo":
			args, _ = json.Marshal(map[string]any{"schema": schemas["json_schema_2020_12_tool"]})
		}
		calls = append(calls, tool.Call{Ref: d.Ref, Args: args})
	}
	return calls
}
