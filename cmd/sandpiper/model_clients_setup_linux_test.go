package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/cmd/sandpiper/clienttest"
)

const prompt = "What do you have?"

// calls returns a call of a tool with a prefix before its name.
func calls(prefix string) func(tool string, args map[string]any) clienttest.Call {
	return func(tool string, args map[string]any) clienttest.Call {
		return clienttest.Call{Tool: prefix + tool, Args: args}
	}
}

var modelClients = []modelClient{
	{name: "Claude Code", module: "@anthropic-ai/claude-code-linux-x64",
		setup: func(t *testing.T, h clientHome) {
			h.write(t, "mcp.json", map[string]any{"mcpServers": map[string]any{"sandpiper": h.entry()}})
		},
		command: func(h clientHome) (args, variables []string) {
			return []string{h.modules.Path("@anthropic-ai/claude-code-linux-x64/claude"), "-p", prompt, "--mcp-config", h.dir + "/mcp.json",
					"--strict-mcp-config",
					"--allowedTools", "mcp__sandpiper"},
				[]string{"ANTHROPIC_BASE_URL=" + h.model, "ANTHROPIC_API_KEY=dummy", "DISABLE_AUTOUPDATER=1",
					"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"}
		},
		call: calls("mcp__sandpiper__"),
		search: func(query string) clienttest.Call {
			return clienttest.Call{Tool: "ToolSearch", Args: map[string]any{"query": query, "max_results": 5}}
		}},
	{name: "Codex", module: "codex-linux-x64",
		setup: func(t *testing.T, h clientHome) {
			h.write(t, ".codex/config.toml", "model = \"gpt-5.5\"\nmodel_provider = \"test\"\n[model_providers.test]\nname = "+
				"\"test\"\nbase_url = \""+h.model+
				"/v1\"\nwire_api = \"responses\"\n")
			initialize(t, h.dir, h.binary, "--apply", "codex", "--yes") // the entry that people get
			text, err := os.ReadFile(h.dir + "/.codex/config.toml")
			if err != nil {
				t.Fatal(err)
			}
			entry := strings.ReplaceAll(string(text), strconv.Quote(h.binary), strconv.Quote(h.program))
			const table = "[mcp_servers.sandpiper]\n" // on a busy machine a server may take longer than the 10 seconds that Codex waits
			h.write(t, ".codex/config.toml", strings.Replace(entry, table, table+"startup_timeout_sec = 60\n", 1))
		},
		command: func(h clientHome) (args, variables []string) {
			return []string{h.modules.Path("codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"), "exec", "--skip-git-repo-check",
				prompt}, nil
		},
		call: func(tool string, args map[string]any) clienttest.Call {
			return clienttest.Call{Namespace: "mcp__sandpiper", Tool: tool, Args: args}
		},
		search: func(query string) clienttest.Call {
			return clienttest.Call{Tool: clienttest.ToolSearch, Args: map[string]any{"query": query, "limit": 8}}
		}},
	{name: "Gemini CLI", module: "@google/gemini-cli",
		setup: func(t *testing.T, h clientHome) {
			h.write(t, ".gemini/settings.json", map[string]any{"mcpServers": map[string]any{"sandpiper": h.entry()},
				"security": map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}},
				"privacy":  map[string]any{"usageStatisticsEnabled": false},
				"general":  map[string]any{"enableAutoUpdate": false}})
		},
		command: func(h clientHome) (args, variables []string) {
			return append(h.node("@google/gemini-cli/bundle/gemini.js"), "-p", prompt, "--yolo", "--skip-trust", "-m", "gemini-2.5-pro"),
				[]string{"GEMINI_API_KEY=dummy", "GOOGLE_GEMINI_BASE_URL=" + h.model, "GEMINI_CLI_NO_RELAUNCH=true"}
		},
		call: calls("mcp_sandpiper_")},
	{name: "GitHub Copilot CLI", module: "@github/copilot-linux-x64",
		setup: func(t *testing.T, h clientHome) {
			e := h.entry()
			e["type"], e["tools"] = "local", []string{"*"}
			h.write(t, ".copilot/mcp-config.json", map[string]any{"mcpServers": map[string]any{"sandpiper": e}})
		},
		command: func(h clientHome) (args, variables []string) {
			return []string{h.modules.Path("@github/copilot-linux-x64/copilot"), "-p", prompt, "--allow-all-tools",
					"--disable-builtin-mcps"},
				[]string{"COPILOT_PROVIDER_BASE_URL=" + h.model + "/v1", "COPILOT_MODEL=gpt-4.1", "COPILOT_OFFLINE=true",
					"COPILOT_AUTO_UPDATE=false"}
		},
		call: calls("sandpiper-")},
	{name: "opencode", module: "opencode-linux-x64-baseline",
		setup: func(t *testing.T, h clientHome) {
			h.write(t, ".config/opencode/opencode.json", map[string]any{
				"mcp": map[string]any{"sandpiper": map[string]any{"type": "local", "command": []string{h.program, "serve"},
					"enabled": true}},
				"provider": map[string]any{"test": map[string]any{"npm": "@ai-sdk/openai-compatible", "name": "test",
					"options": map[string]any{"baseURL": h.model + "/v1", "apiKey": "dummy"},
					"models":  map[string]any{"m": map[string]any{"name": "m"}}}},
				"model": "test/m", "small_model": "test/m", "autoupdate": false, "share": "disabled"})
		},
		command: func(h clientHome) (args, variables []string) {
			return []string{h.modules.Path("opencode-linux-x64-baseline/bin/opencode"), "run", "--pure", prompt},
				[]string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"}
		},
		call: calls("sandpiper_")},
	{name: "Qwen Code", module: "@qwen-code/qwen-code",
		setup: func(t *testing.T, h clientHome) {
			h.write(t, ".qwen/settings.json", map[string]any{"mcpServers": map[string]any{"sandpiper": h.entry()},
				"privacy": map[string]any{"usageStatisticsEnabled": false}, "general": map[string]any{"enableAutoUpdate": false,
					"disableAutoUpdate": true}})
		},
		command: func(h clientHome) (args, variables []string) {
			return append(h.node("@qwen-code/qwen-code/cli.js"), prompt, "--yolo", "--auth-type", "openai", "--openai-api-key", "dummy",
				"--openai-base-url", h.model+"/v1",
				"--model", "m"), nil
		},
		call: calls("mcp__sandpiper__"),
		search: func(query string) clienttest.Call {
			return clienttest.Call{Tool: "tool_search", Args: map[string]any{"query": query}}
		}},
}
