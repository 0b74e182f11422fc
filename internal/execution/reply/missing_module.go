package reply

import (
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// The errors of Python and pandas for a missing module.
var (
	noModule = lazyregexp.New(`^No module named '([A-Za-z_][A-Za-z0-9_]*)((?:\.[A-Za-z0-9_]+)*)'`)
	noPlots  = lazyregexp.New(`^matplotlib is required for plotting`)
	noExtra  = lazyregexp.New("^(?:`Import ([A-Za-z0-9_.-]+)` failed|Missing optional dependency '([A-Za-z0-9_.-]+)')") // of pandas
	noServer = lazyregexp.New(`^(?:No module named 'servers\.([A-Za-z_][A-Za-z0-9_]*)|cannot import name '([A-Za-z_][A-Za-z0-9_]*)' from ` +
		`'servers')`)
	noName = lazyregexp.New(`^cannot import name '([A-Za-z_][A-Za-z0-9_]*)' from '(client)'`)
)

// networkPackages are packages that are useless without a network.
var networkPackages = map[string]bool{"requests": true, "httpx": true, "aiohttp": true, "urllib3": true, "httplib2": true,
	"websockets": true, "websocket": true,
	"paramiko": true, "boto3": true, "botocore": true, "openai": true, "anthropic": true, "psycopg2": true, "psycopg": true,
	"pymysql": true, "redis": true, "pymongo": true}

// dataModules are the modules of the packages of `sandpiper packages add --preset data`.
var dataModules = map[string]bool{"pandas": true, "numpy": true, "matplotlib": true, "PIL": true, "seaborn": true, "sklearn": true,
	"duckdb": true, "openpyxl": true}

// seedModules maps modules of the second seed's framework to their replacements
// (docs/coming-from.md). A module of that name in the workspace takes precedence.
var seedModules = map[string]string{
	"client.agent_helper": "call tools directly: from servers.SERVER import TOOL; a program outside of the sandbox uses " +
		"AgentHelper of sandpiper.compat, and a client the tool execute_task",
	"client.sandbox_executor": "this code runs in the sandbox already; a program outside of it uses SandboxExecutor of sandpiper.compat",
	"client.filesystem_helpers": "read_file, write_file, list_files, delete_file, save_skill, load_skill and list_skills are there " +
		"without import; dir(servers) lists the servers",
	"client.tool_selector":  "search_tools(query) finds tools",
	"client.code_generator": "a client uses the tool execute_task, and a program outside of the sandbox CodeGenerator of sandpiper.compat",
	"client":                "the package client has the module mcp_client only: from client.mcp_client import call_mcp_tool",
	"config": "a module of your own must be in /workspace; the framework's load_config and ExecutionConfig are in " +
		"sandpiper.compat, outside of the sandbox",
	"workflows": "a module of your own must be in /workspace; a workflow of the framework is a YAML or JSON file: a client uses the " +
		"tools save_workflow and run_workflow, the operator `sandpiper workflow save FILE` and `sandpiper workflow run NAME`; in code " +
		"step(name, fn) records a step, and save_state(name, value) keeps a value",
	"plugins": "a module of your own must be in /workspace; instead of the framework's plugins the operator adds an MCP server to " +
		"servers:, or a hook to guardrails.hooks, in the configuration",
}

// missingModuleHint returns the hint for a missing module; "" for one of Sandpiper's own.
func (g Limits) missingModuleHint(message string) string {
	if m := noServer().FindStringSubmatch(message); m != nil && g.Disabled != nil {
		if err := g.Disabled(m[1] + m[2]); err != nil {
			return fault.Message(err) + "; " + fault.Hint(err)
		}
	}
	if m := noName().FindStringSubmatch(message); m != nil {
		return seedHint(m[2] + "." + m[1])
	}
	if noPlots().MatchString(message) {
		return "return the numbers as a table instead, or ask the operator to run `sandpiper packages add --preset data`; code cannot " +
			"install packages"
	}
	if m := noExtra().FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("avoid it, or ask the operator to run `sandpiper packages add %s`; code cannot install packages", m[1]+m[2])
	}
	m := noModule().FindStringSubmatch(message)
	switch {
	case m == nil || m[1] == "skills":
		return ""
	case m[1] == "servers":
		return "no connected server has this module: search_tools finds those that exist; the operator can add servers to servers: in " +
			"the configuration"
	case seedModules[m[1]] != "":
		return seedHint(m[1] + m[2])
	case dataModules[m[1]]:
		return "avoid it, or ask the operator to run `sandpiper packages add --preset data`, which adds pandas, numpy, matplotlib and " +
			"others; code cannot install packages"
	case networkPackages[m[1]] && g.Network:
		return "use fetch(url) or urllib.request, which reach the hosts that the operator allows, or ask the operator to run `sandpiper " +
			"packages add`"
	case networkPackages[m[1]]:
		return "this package cannot work, since " + networkHint
	}
	if strings.HasSuffix(message, "of the standard library that is not installed") {
		return "avoid it: this Python does not include it, and no package provides it"
	}
	return "avoid it, or ask the operator to run `sandpiper packages add` or extend the tenant's package layer; code cannot install " +
		"packages"
}

// seedHint returns the replacement of a module, or else that of its package.
func seedHint(module string) string {
	if hint := seedModules[module]; hint != "" {
		return hint
	}
	top, _, _ := strings.Cut(module, ".")
	return seedModules[top]
}
