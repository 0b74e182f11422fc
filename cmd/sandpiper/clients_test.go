package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// TestClients connects third-party MCP clients to the built program with its real
// sandbox: see package wiretest.
func TestClients(t *testing.T) {
	modules := wiretest.Installed(t, ".bin/mcp-inspector", ".bin/mcporter")
	needSandbox(t)
	binary := build(t)
	theInspector := func(args ...string) func(clientSetup) mcpClient {
		return func(c clientSetup) mcpClient { return inspector{c, args} }
	}
	theMCPorter := func(c clientSetup) mcpClient { return mcporter{c} }
	for _, way := range longtest.Rows([]struct {
		name  string
		use   func(clientSetup) mcpClient
		reach func(t *testing.T, home, binary, profile string) server
	}{
		{"inspector over stdio", theInspector(), stdioServer},
		{"inspector over HTTP, 2025-11-25", theInspector("--protocol-era", "legacy"), httpServer},
		{"inspector over HTTP, 2026-07-28", theInspector("--protocol-era", "modern"), httpServer},
		{"inspector over events", theInspector(), sseServer},
		{"mcporter over stdio", theMCPorter, stdioServer},
		{"mcporter over HTTP", theMCPorter, httpServer},
	}, 2, 4) {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			servers := map[string]server{}
			for _, profile := range []string{"lean", "standard", "full"} {
				servers[profile] = way.reach(t, home, binary, profile)
			}
			c := way.use(clientSetup{modules: modules, home: home, config: configure(t, home, servers)})
			t.Run("list", func(t *testing.T) { listTools(t, c) })
			t.Run("call", func(t *testing.T) { callTools(t, c) })
			if c, ok := c.(inspector); ok {
				t.Run("resources", func(t *testing.T) { readResources(t, c) })
			}
		})
	}
}

// server is a server in a client's configuration.
type server struct {
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Type    string            `json:"type,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

func stdioServer(t *testing.T, home, binary, profile string) server {
	return server{Command: binary, Args: []string{"serve", "--profile", profile}, Env: map[string]string{
		"XDG_CACHE_HOME": os.Getenv("XDG_CACHE_HOME"), "XDG_DATA_HOME": filepath.Join(home, "data"), "XDG_CONFIG_HOME": filepath.Join(home,
			"config"),
	}}
}

const webToken = "a-token-of-some-length"

func httpServer(t *testing.T, home, binary, profile string) server {
	d := startServing(t, binary, webConfig(home), "--profile", profile)
	return server{Type: "streamable-http", URL: d.url, Headers: map[string]string{"Authorization": "Bearer " + webToken}}
}

func sseServer(t *testing.T, home, binary, profile string) server {
	d := startServing(t, binary, webConfig(home), "--profile", profile)
	return server{Type: "sse", URL: "http://" + d.addr + "/sse", Headers: map[string]string{"Authorization": "Bearer " + webToken}}
}

// webConfig lets the daemons of all profiles share their data.
func webConfig(home string) string {
	return fmt.Sprintf("data_dir: %s\nhttp: {token: %s, sse: true}\n", filepath.Join(home, "data"), webToken)
}

// build builds the program.
func build(t *testing.T) string {
	t.Helper()
	binary, err := buildSandpiper()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// configure writes the configuration file of a client.
func configure(t *testing.T, home string, servers map[string]server) string {
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, "mcp.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mcpClient is a client on the command line: one connection per call.
type mcpClient interface {
	// list returns the names of the tools of a profile.
	list(t *testing.T, profile string) []string
	// call returns the result of a tool, and whether it is an error.
	call(t *testing.T, profile, tool, args string) (answer string, failed bool)
}

func listTools(t *testing.T, c mcpClient) {
	lean := []string{"execute_code", "get_tool_definition", "resume_execution", "search_tools"}
	standard := slices.Concat(lean, []string{"get_execution_stats", "list_skills", "list_tool_categories", "list_workspace_files",
		"load_skill",
		"read_workspace_file", "restore_pii", "resume_session", "sanitize_pii", "save_skill", "write_workspace_file"})
	slices.Sort(standard)
	for profile, want := range map[string][]string{"lean": lean, "standard": standard} {
		if diff := cmp.Diff(want, c.list(t, profile)); diff != "" {
			t.Errorf("tools of %s (-want +got):\n%s", profile, diff)
		}
	}
	full := c.list(t, "full")
	for _, tool := range append(standard, "delete_skill", "execute_task", "fill_form", "get_server_tools", "get_state", "get_version",
		"inspect_form", "list_servers", "save_state", "select_tools") {
		if !slices.Contains(full, tool) {
			t.Errorf("tools of full are %q, without %s", full, tool)
		}
	}
}

// callTools calls tools in a typical order, each of them in a long test. Each call has its own daemon, so the
// calls also test that data persists.
func callTools(t *testing.T, c mcpClient) {
	for _, step := range longtest.Rows([]struct {
		tool, args string
		failed     bool
		want       string // see covers
	}{
		{"write_workspace_file", `{"filename": "in/orders.csv", "content": "id,amount\n1,10\n2,32\n"}`, false,
			`{"success": true, "message": "Written 20 bytes to in/orders.csv"}`},
		{"list_workspace_files", `{}`, false,
			`{"success": true, "path": ".", "files": ["in/orders.csv"], "count": 1}`},
		{"read_workspace_file", `{"filename": "in/orders.csv"}`, false,
			`{"success": true, "filename": "in/orders.csv", "content": "id,amount\n1,10\n2,32\n", "size": 20}`},
		{"read_workspace_file", `{"filename": "../orders.csv"}`, true,
			`{"success": false, "error": "*"}`},
		{"execute_code", `{"code": "import csv\nrows = list(csv.DictReader(open('in/orders.csv')))\nprint(len(rows), unit)\nresult = ` +
			`{'sum': sum(int(r['amount']) for r in rows)}", "context_vars": {"unit": "orders"}}`, false,
			`{"success": true, "result": {"sum": 42}, "output": ["2 orders"], "execution_time_ms": "*", "execution_id": "*"}`},
		{"execute_code", `{"code": "print('before')\n1 / 0"}`, true,
			`{"success": false, "error": "division by zero", "error_type": "ZeroDivisionError", "traceback": "*", "output": ["before"], ` +
				`"execution_id": "*"}`},
		{"execute_code", `{"code": "while True: pass", "timeout_seconds": 1}`, true,
			`{"success": false, "error": "Execution timed out after 1 second", "error_type": "timeout", "output": []}`},
		{"save_skill", `{"name": "double", "code": "def double(x): return 2 * x", "description": "twice as much", "tags": ["math"]}`, false,
			`{"success": true, "message": "*"}`},
		{"load_skill", `{"name": "double"}`, false,
			`{"name": "double", "code": "def double(x): return 2 * x", "metadata": {"name": "double", "description": "twice as much", ` +
				`"tags": ["math"], "created": "*", "code_hash": "*"}}`},
		{"list_skills", `{}`, false,
			`{"count": 1, "skills": [{"name": "double", "description": "twice as much", "tags": ["math"], "version": 1, "created": "*", ` +
				`"updated": "*", "code_hash": "*"}]}`},
		{"execute_code", `{"code": "from skills.double import double\ndouble(21)"}`, false,
			`{"success": true, "result": 42}`},
		{"get_execution_stats", `{}`, false,
			`{"workspace": {"path": "/workspace", "file_count": 1}, "skills": {"count": 1}, "limits": {"default_timeout_seconds": 30, ` +
				`"default_memory_mb": 500}, "sandbox": {"backend": "process", "working": true}}`},
	}, 0, 2, 4, 5, 7) {
		answer, failed := c.call(t, "standard", step.tool, step.args)
		if failed != step.failed {
			t.Errorf("%s %s: is an error: %t, want %t", step.tool, step.args, failed, step.failed)
		}
		if got, want := decode(t, answer), decode(t, step.want); !covers(got, want) {
			t.Errorf("%s %s (-want +got):\n%s", step.tool, step.args, cmp.Diff(want, got))
		}
	}
}

func decode(t *testing.T, text string) (v any) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// covers reports whether got equals want. Objects in got may have more keys, and "*" in
// want matches any value.
func covers(got, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		for key := range w {
			value, there := g[key]
			ok = ok && there && covers(value, w[key])
		}
		return ok
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(g, w, covers)
	}
	return want == "*" || cmp.Equal(got, want)
}

// clientSetup is the common setup of the clients.
type clientSetup struct {
	modules wiretest.Modules
	home    string
	config  string
}

// run starts a client and returns its output and exit code.
func (c clientSetup) run(t *testing.T, program string, args ...string) ([]byte, int) {
	return c.modules.Run(t, c.home, c.modules.Path(".bin/"+program), args...)
}

// tools returns the names in a list of tools.
func tools(t *testing.T, list []byte) (names []string) {
	var answer struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(list, &answer); err != nil {
		t.Fatalf("%v in %s", err, list)
	}
	for _, tool := range answer.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// inspector is npm's @modelcontextprotocol/inspector.
type inspector struct {
	clientSetup
	args []string
}

func (c inspector) run(t *testing.T, profile string, args ...string) ([]byte, int) {
	all := slices.Concat([]string{"--cli", "--config", c.config, "--server", profile}, c.args, args)
	return c.clientSetup.run(t, "mcp-inspector", all...)
}

// list passes --strict, so that a schema that some clients cannot read is an error.
func (c inspector) list(t *testing.T, profile string) []string {
	out, code := c.run(t, profile, "--method", "tools/list", "--strict")
	if code != 0 {
		t.Errorf("the inspector ended with %d over the tools of %s", code, profile)
	}
	return tools(t, out)
}

// call calls a tool, again if the machine was so slow that the answer is a task, which the inspector
// only prints.
func (c inspector) call(t *testing.T, profile, tool, args string) (string, bool) {
	var out []byte
	var code int
	for range 5 {
		out, code = c.run(t, profile, "--method", "tools/call", "--tool-name", tool, "--tool-args-json", args)
		if !bytes.Contains(out, []byte(`"taskId"`)) {
			break
		}
	}
	var result struct {
		Content []struct{ Type, Text string }
		IsError bool
	}
	if err := json.Unmarshal(out, &result); err != nil || len(result.Content) != 1 || result.Content[0].Type != "text" {
		t.Fatalf("%s answers %s, want one block of text: %v", tool, out, err)
	}
	if result.IsError != (code != 0) {
		t.Errorf("%s: isError is %t and the inspector ended with %d", tool, result.IsError, code)
	}
	return result.Content[0].Text, result.IsError
}

// mcporter is npm's mcporter.
type mcporter struct{ clientSetup }

func (c mcporter) list(t *testing.T, profile string) []string {
	out, code := c.run(t, "mcporter", "--config", c.config, "list", profile, "--json")
	if code != 0 {
		t.Errorf("mcporter ended with %d over the tools of %s", code, profile)
	}
	return tools(t, out)
}

func (c mcporter) call(t *testing.T, profile, tool, args string) (string, bool) {
	out, code := c.run(t, "mcporter", "--config", c.config, "call", profile+"."+tool, "--args", args, "--output", "json")
	return string(out), code != 0
}
