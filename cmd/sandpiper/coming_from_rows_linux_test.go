package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task"
)

// firstSeed are files of the first seed, below code-execution-mcp.
var firstSeed = map[string]string{
	"workspace/scan_results.json": `[{"severity": "high"}, {"severity": "low"}]`,
	"skills/filter_high_risk.py":  "def filter_high_risk(vulns): return [v for v in vulns if v['severity'] in ['high', 'critical']]",
	"skills/filter_high_risk.json": `{"name": "filter_high_risk", "description": "Filter vulnerabilities to high/critical only", ` +
		`"created": "2025-11-16T10:00:00", "code_hash": "0"}`,
	"tools_registry/full_catalog.json": `{"total_tools": 2, "core_mcps": ["memory-mcp"], "categories": {
		"security": {"description": "Security tools", "tools": {"web_vuln_scanner": {"mcp_server": "security-tools", "description": "Scans web applications for a vulnerability", "functions": ["scan_url"], "use_cases": ["penetration test"]}}},
		"memory": {"description": "Memory tools", "tools": {"recall": {"mcp_server": "memory-mcp", "description": "Recalls facts", "functions": [], "use_cases": []}}}}}`,
	"tools_registry/security/web_vuln_scanner.json": `{"inputSchema": {"type": "object", "properties": {"url": {"type": "string"}}}}`,
	"tools_registry/cluster/drain.json":             `{"mcp_server": "cluster", "description": "Drains a node"}`,
}

// secondSeed is a project of the second seed.
var secondSeed = map[string]string{
	"config.yaml": `execution:
  workspace_dir: ./workspace
  servers_dir: ./servers
  skills_dir: ./skills
  sandbox_type: microsandbox
  sandbox_image: python
  allow_network_access: false

guardrails:
  enabled: true
  strict_mode: false
  security_checks: true
  max_execution_time: 300
  max_memory_mb: 512

mcp_servers: []
`,
	".env": `# Microsandbox server
MSB_SERVER_URL=http://localhost:5555
MSB_API_KEY=your_api_key_here

# Workspace configuration
WORKSPACE_DIR=./workspace
SERVERS_DIR=./servers
SKILLS_DIR=./skills

# Guardrails
GUARDRAILS_ENABLED=true
GUARDRAILS_STRICT_MODE=false

# Logging
LOG_LEVEL=INFO
LOG_FILE=logs/code-execution-mcp.log
`,
	"servers/calculator/__init__.py": "from .tools import add\n",
	"servers/calculator/tools.py":    "def add(a: float, b: float) -> float:\n    return a + b\n\n\ndef multiply(a, b): return a * b\n",
	"servers/station/get_forecast.py": "from client.mcp_client import call_mcp_tool\n\n\nasync def get_forecast(city: str):\n    return " +
		"await call_mcp_tool('weather', 'get_weather', {'city': city})\n",
	"skills/double_number.py":      "def double_number(x):\n    'Double a number.'\n    return x * 2\n",
	"workspace/state/results.json": `{"step": 1, "result": 8}`,
}

const pii = `"text":"Contact john@example.com at 555-123-4567"`

func azureOf(names ...string) (lines string) {
	for _, name := range names {
		lines += "AZURE_OPENAI_" + name + "=" + map[string]string{"ENDPOINT": "https://your-resource.openai.azure.com"}[name] + "\n"
	}
	return strings.NewReplacer("KEY=\n", "KEY=k\n", "NAME=\n", "NAME=n\n", "VERSION=\n", "VERSION=2024-08-01-preview\n").Replace(lines)
}

var (
	azureTasks  = azureOf("ENDPOINT", "API_KEY", "CHAT_DEPLOYMENT_NAME", "API_VERSION")
	azureSearch = azureOf("ENDPOINT", "API_KEY", "EMBEDDER_NAME", "EMBEDDER_VERSION")
)

// azure checks that variables select Azure in the user's own .env, and in the environment only
// together with key; they are set for another program there.
func azure(variables, key string, selects func(*config.Config) bool) check {
	environ := strings.Fields(variables)
	is := func(want bool) func(string, *config.Config, string) bool {
		return func(_ string, c *config.Config, _ string) bool { return selects(c) == want }
	}
	return allOf(loads("", variables, nil, is(true)), loads("", "", environ, is(false)), loads(key, "", environ, is(true)))
}

func hasWarning(want ...string) func(string, *config.Config, string) bool {
	return func(_ string, _ *config.Config, warnings string) bool {
		for _, w := range want {
			if !strings.Contains(warnings, w) {
				return false
			}
		}
		return warnings != ""
	}
}

// comingFrom has the check of each row, by section and first cell.
var comingFrom = map[string]map[string]check{
	"Tools": {
		"execute_code": allOf(
			answers("write_workspace_file", `{"filename":"large_dataset.json","content":"[{\"status\":\"active\"},{\"status\":\"off\"}]"}`),
			evaluates("data = json.loads(read_file(\"large_dataset.json\"))\nfiltered = [d for d in data if d['status'] == "+
				"'active']\nresult = {\n'total': len(data),\n'active': len(filtered),\n'sample': filtered[:5]\n}",
				`"success":true`, `"result":\{"total":2,"active":1,"sample":\[\{"status":"active"\}\]\}`, `"output":\[\]`,
				`"execution_time_ms":`),
			answers("execute_code", `{"code":"print(x); 1/0","context_vars":{"x":5},"timeout_seconds":5,"memory_mb":200}`,
				`"success":false`, `"error":"division by zero"`, `"traceback":"`, `"output":\["5"\]`)),
		"search_tools": answers("search_tools", `{"query":"vulnerability","category":"security","detail_level":"summary"}`,
			`"query":"vulnerability","category":"security","detail_level":"summary","count":1`,
			`"name":"web_vuln_scanner","category":"security","mcp_server":"security-tools","description":"Scans`),
		"get_tool_definition": allOf(answers("get_tool_definition", `{"tool_name":"web_vuln_scanner","category":"security"}`,
			`"mcp_server":"security-tools"`, `"category":"security"`, `"functions":\["scan_url"\]`, `"use_cases":\["penetration test"\]`,
			`"input_schema":\{"type":"object"`),
			answers("get_tool_definition", `{"tool_name":"web_vuln_scaner"}`,
				`"success":false,"error":"[^}]*did you mean security-tools.web_vuln_scanner`)),
		"list_tool_categories": answers("list_tool_categories", `{}`, `"security":\{"description":"Security tools","tool_count":1\}`,
			`"total_tools":`, `"core_mcps":\["memory-mcp"`),
		"save_skill": allOf(answers("save_skill", `{"name":"filter_active","code":"def filter_active(data): return [u for u in data if `+
			`u['status'] == 'active']","description":"Filter list to only active users"}`, `"success":true`,
			`"message":"Skill 'filter_active' saved`),
			answers("save_skill", `{"name":"no-name","code":"x = 1"}`, `"error":`)),
		"load_skill": answers("load_skill", `{"name":"filter_high_risk"}`, `"name":"filter_high_risk"`,
			`"code":"def filter_high_risk`, `"metadata":\{"name":"filter_high_risk","description":"Filter vulnerabilities`, `"created":`,
			`"code_hash":`),
		"list_skills": answers("list_skills", `{}`, `"count":[1-9]`, `"skills":\[\{"name":"filter_`),
		"sanitize_pii": answers("sanitize_pii", "{"+pii+"}", `"sanitized_text":"Contact \[EMAIL_[^ ]+\] at \[PHONE_[^ ]+\]"`,
			`"pii_found":2`, `"pii_types":\["EMAIL","PHONE"\]`),
		"restore_pii": restoresPII,
		"write_workspace_file": answers("write_workspace_file", `{"filename":"notes/a.txt","content":"hello"}`, `"success":true`,
			`"message":"Written 5 bytes to notes/a.txt"`),
		"read_workspace_file": allOf(answers("write_workspace_file", `{"filename":"b.txt","content":"hello"}`),
			answers("read_workspace_file", `{"filename":"b.txt"}`, `"success":true,"filename":"b.txt","content":"hello","size":5`)),
		"list_workspace_files": allOf(answers("write_workspace_file", `{"filename":"l/c.txt","content":"hello"}`),
			answers("list_workspace_files", `{"subpath":"l"}`, `"success":true,"path":"l","files":\["l/c.txt"\],"count":1`)),
		"get_execution_stats": answers("get_execution_stats", `{}`, `"workspace":\{"path":"/workspace","file_count":`,
			`"skills":\{"count":\d+,"path":"/workspace/skills"`, `"tool_registry":\{"categories":\[[^]]*"security"`, `"total_tools":`,
			`"sandboxed_execution"`, `"progressive_tool_discovery"`, `"pii_tokenization"`, `"skills_persistence"`, `"workspace_files"`,
			`"default_timeout_seconds":30,"default_memory_mb":500`),
	},
	"In code": {
		"json re math statistics collections": evaluates("result = [json.dumps(1), re.sub('a', 'b', 'a'), math.floor(2.5), "+
			"statistics.mean([1, 3]), collections.Counter('aa')['a']]", `"result":\["1","b",2,2,2\]`),
		"datetime date timedelta": evaluates("result = str(datetime(2025, 1, 1) + timedelta(days=1)) + str(date(2025, 1, 1))",
			`"result":"2025-01-02 00:00:002025-01-01"`),
		"workspace": evaluates("result = workspace", `"result":"/workspace"`),
		"read_file(f) write_file(f, c) list_files(p) delete_file(f)": evaluates("write_file('d/x.txt', 'y')\nresult = "+
			"[read_file('d/x.txt'), list_files('d'), delete_file('d/x.txt'), list_files('d')]",
			`"result":\["y",\["d/x.txt"\],"Deleted d/x.txt",\[\]\]`),
		"save_skill load_skill list_skills": evaluates("skill = load_skill(\"filter_high_risk\")\nexec(skill)\nfrom skills import "+
			"filter_high_risk as imported\nsave_skill('one', 'def one(): return 1', 'One')\nresult = [filter_high_risk([{'severity': "+
			"'low'}]), imported([]), len(list_skills()) > 1]",
			`"result":\[\[\],\[\],true\]`),
		"tokenize_pii(text) detokenize_pii(text, tokens)": tokenized,
		"filter_by_field summarize_list aggregate_stats format_output": evaluates("d = [{'a': 1}, {'a': 3}]\nresult = "+
			"[filter_by_field(d, 'a', 1), summarize_list(d, limit=1), aggregate_stats(d), format_output(d, 5)]",
			`"result":\[\[\{"a":1\}\],\{"count":2,"sample":\[\{"a":1\}\]\},\{"count":2,"a_sum":4,"a_avg":2(.0)?,"a_min":1,"a_max":3\}`),
		"result":              evaluates("result = {'x': 1}", `"result":\{"x":1\}`),
		"print":               evaluates("print('a', 1)\nprint('b')", `"output":\["a 1","b"\]`),
		"restricted builtins": exists("docs/restricted.md"),
	},
	"Files and settings": {
		"AGENTIC_SYSTEM_PATH": answers("search_tools", `{"query":"recall"}`, `"memory-mcp":\["recall`),
		"workspace/":          unusedWorkspace,
		"skills/": evaluates("from skills import filter_high_risk\nresult = filter_high_risk([{'severity': "+
			"'high'}])", `"result":\[\{"severity":"high"\}\]`),
		"tools_registry/": answers("get_tool_definition", `{"tool_name":"recall"}`,
			`"connect":"add server memory-mcp to servers`),
		"full_catalog.json": answers("list_tool_categories", `{}`, `"core_mcps":\["memory-mcp"`),
		"tools_registry/CATEGORY/TOOL.json": allOf(answers("search_tools", `{"query":"drain","detail_level":"name"}`,
			`"category":"cluster"`), answers("get_tool_definition", `{"tool_name":"web_vuln_scanner"}`, `"url":\{"type":"string"\}`)),
		"server.py in ~/.claude.json": initialized,
		"pip install -e .":            prints(`sandpiper .*\n`, "version"),
		"30 seconds and 500 MB":       answers("get_execution_stats", `{}`, `"default_timeout_seconds":30,"default_memory_mb":500`),
	},
	"Classes": {
		"load_config()": runsPython("c = load_config()\nprint(c.execution.workspace_dir, c.servers_dir, c.skills_dir, "+
			"c.mcp_servers)", "./workspace ./servers ./skills []"),
		"ExecutionConfig": runsPython("c = ExecutionConfig(workspace_dir='w', sandbox_type='microsandbox', "+
			"sandbox_image='python')\nprint(c.workspace_dir)\ntry: ExecutionConfig(allow_network_access=True)\nexcept ValueError as e: "+
			"print('network: {allow' in str(e))", "w\nTrue"),
		"GuardrailConfig": runsPython("print(SandboxExecutor(ExecutionConfig(), "+
			"GuardrailConfig(max_execution_time=1)).execute('while True: pass').result.value)", "timeout"),
		"SandboxExecutor": runsPython("result, output, error = SandboxExecutor(...).execute(code='print(1)', "+
			"task_description='Save initial state')\nprint(result.value, output, error)", "success 1 None"),
		"FilesystemHelper": runsPython("h = FilesystemHelper(...)\nprint(h.list_servers(), h.list_tools('calculator'))",
			"['calculator'] ['add', 'calculate', 'multiply']"),
		"ToolSelector": runsPython("h, s = FilesystemHelper(...), ToolSelector(similarity_threshold=0.1)\nd = "+
			"s.get_tool_descriptions(h, {'calculator': ['add', 'multiply']})\nprint(s.select_tools('Add two numbers', d))",
			"{'calculator': ['add', 'multiply']}"),
		"CodeGenerator": runsPython("print(CodeGenerator().generate_imports({'calculator': ['add']}))",
			"['from servers.calculator import add']"),
		"AgentHelper": runsPython("result, output, error = AgentHelper(FilesystemHelper(...), "+
			"SandboxExecutor(...)).execute_task('Calculate 5 + 3', verbose=False)\nprint(result.value, '8' in output, error)",
			"success True None"),
		"create_executor_for_customer": runsPython(customers, "{'step': 1} True"),
	},
	"Features": {
		"tool discovery": allOf(executes("import servers\nresult = dir(servers)", `"weather"`),
			prints("weather.get_weather", "tools", "list"), prints("weather.get_weather", "tools", "search", "weather")),
		"tool selection for a task": prints("calculator", "tools", "select", "Calculate 5 + 3"),
		"state persistence":         executes("save_state('kept', 1)\nresult = get_state('kept')", `"result":1`),
		"skills system":             prints("double_number", "skills", "list"),
		"type safety": executes("from servers.weather import get_weather\nresult = "+
			"get_weather.__annotations__['city'].__name__", `"result":"str"`),
		"guardrails":      exists("docs/guardrails.md"),
		"workflow system": workflowRuns,
		"form filling": executes("write_file('f.json', json.dumps({'type': 'object', 'properties': {'a': {'type': "+
			"'string'}}}))\nresult = forms.open('f.json').fill({'a': 'x'}).values", `"result":\{"a":"x"\}`),
		"plugins": exists("docs/openapi.md"),
		"hardware isolation": loads("sandbox: {backend: microvm}", "", nil,
			func(_ string, c *config.Config, _ string) bool { return c.Backend == "microvm" }),
		"session continuity": allOf(sessionLog(`"session_id":"session_001"`), prints("session_001", "session", "list")),
		"disk quota of a customer": allOf(loads("workspace: {max_mb: 100}", "", nil,
			func(_ string, c *config.Config, _ string) bool { return c.Workspace.Quota.Bytes == 100<<20 }), prints("workspace", "tenant",
			"quota", "local")),
		"cleanup of inactive customers": prints("No tenant is inactive", "tenant", "clean", "--inactive", "90d", "--yes"),
	},
	"Modules in code": {
		"servers.calculator": executes("from servers.calculator import add, multiply\nfrom servers.weather import "+
			"get_weather\nresult = [add(5, 3), multiply(2, 3), get_weather(city='Paris')['city']]", `"result":\[8,6,"Paris"\]`),
		"client.mcp_client": executes("from servers.station import get_forecast\nresult = (await get_forecast('Paris'))['city']",
			`"result":"Paris"`),
		"client.agent_helper":       hints("client.agent_helper", "call tools directly"),
		"client.sandbox_executor":   hints("client.sandbox_executor", "in the sandbox already"),
		"client.filesystem_helpers": hints("client.filesystem_helpers", "read_file"),
		"client.tool_selector":      hints("client.tool_selector", "search_tools"),
		"client.code_generator":     hints("client.code_generator", "execute_task"),
		"config":                    allOf(hints("config.schema", "sandpiper.compat"), hints("config.loader", "sandpiper.compat")),
		"workflows":                 hints("workflows", "save_state"),
		"plugins":                   hints("plugins", "guardrails.hooks"),
	},
	"Keys of config.yaml": {
		"execution.workspace_dir": loads(secondSeed["config.yaml"], "", nil,
			hasWarning("config.yaml line 2: execution.workspace_dir has no effect", "files put")),
		"execution.servers_dir": loads("execution: {servers_dir: ./servers}", "", nil,
			func(dir string, c *config.Config, _ string) bool { return c.ServersDir == dir+"/servers" }),
		"execution.skills_dir": loads("execution: {skills_dir: ./skills}", "", nil,
			func(dir string, c *config.Config, _ string) bool { return c.SkillsDir == dir+"/skills" }),
		"execution.sandbox_type": allOf(loads("execution: {sandbox_type: microsandbox}", "", nil,
			func(_ string, c *config.Config, _ string) bool { return c.Backend == "microvm" }), refuses("execution: {sandbox_type: docker}",
			"sandbox_type docker")),
		"execution.sandbox_image": loads("execution: {sandbox_image: python}", "", nil,
			func(_ string, _ *config.Config, warnings string) bool { return warnings == "" }),
		"execution.allow_network_access": allOf(loads("execution: {allow_network_access: false}", "", nil,
			func(_ string, _ *config.Config, warnings string) bool { return warnings == "" }), loads("execution: {allow_network_access: true}", "", nil, hasWarning("config.yaml line 1: sandbox.allow_network_access lets code send requests to every public host", "network.allow"))),
		"guardrails.enabled": loads("guardrails: {enabled: false}", "", nil,
			func(_ string, c *config.Config, _ string) bool { return c.Guardrails.Off }),
		"guardrails.strict_mode": loads("guardrails: {strict_mode: true}", "", nil,
			func(_ string, c *config.Config, _ string) bool { return c.Guardrails.Check.Strict }),
		"guardrails.security_checks": loads("guardrails: {security_checks: false}", "", nil,
			func(_ string, c *config.Config, _ string) bool { return c.Guardrails.Check.SkipInput }),
		"guardrails.max_execution_time": loads("guardrails: {max_execution_time: 120}", "", nil,
			func(_ string, c *config.Config, _ string) bool { return c.Limits.MaxTimeout.Seconds() == 120 }),
		"guardrails.max_memory_mb": loads("guardrails: {max_memory_mb: 400}", "", nil,
			func(_ string, c *config.Config, _ string) bool { return c.Limits.MaxMemoryMB == 400 }),
		"mcp_servers": prints(`weather +[0-9]+ tools`, "tools", "sync"),
		"plugins":     loads("execution: {}\nplugins: {a: 1}", "", nil, hasWarning("plugins has no effect: connect an MCP server")),
		"workflows": loads("execution: {}\nworkflows: []", "", nil,
			hasWarning("workflows has no effect: save its files with `sandpiper workflow save FILE`")),
		"logging": loads("execution: {}\nlogging: {level: INFO}", "", nil, hasWarning("logging has no effect: write log:")),
	},
	"Variables": {
		"MSB_SERVER_URL": loads("", "MSB_SERVER_URL=http://localhost:5555", nil,
			hasWarning("MSB_SERVER_URL (.env line 1): no effect, since Sandpiper starts sandboxes itself")),
		"MSB_API_KEY": loads("", "MSB_API_KEY=k", nil,
			hasWarning("MSB_API_KEY (.env line 1): no effect, since Sandpiper starts sandboxes itself")),
		"WORKSPACE_DIR": loads("", "WORKSPACE_DIR=./workspace", nil, hasWarning("WORKSPACE_DIR has no effect")),
		"SERVERS_DIR": loads("", "SERVERS_DIR=./servers", nil,
			func(dir string, c *config.Config, _ string) bool { return c.ServersDir == dir+"/servers" }),
		"SKILLS_DIR": loads("", "SKILLS_DIR=./skills", nil,
			func(dir string, c *config.Config, _ string) bool { return c.SkillsDir == dir+"/skills" }),
		"GUARDRAILS_ENABLED": loads("", "GUARDRAILS_ENABLED=false", nil,
			func(_ string, c *config.Config, _ string) bool { return c.Guardrails.Off }),
		"GUARDRAILS_STRICT_MODE": loads("", "GUARDRAILS_STRICT_MODE=true", nil,
			func(_ string, c *config.Config, _ string) bool { return c.Guardrails.Check.Strict }),
		"LOG_LEVEL": loads("", "LOG_LEVEL=DEBUG", nil, func(_ string, c *config.Config,
			_ string) bool {
			return c.Log.Level.String() == "DEBUG"
		}),
		"LOG_FILE": loads("", "LOG_FILE=logs/x.log", nil, func(dir string, c *config.Config,
			_ string) bool {
			return c.Log.File == dir+"/logs/x.log"
		}),
		"AZURE_OPENAI_ENDPOINT": allOf(
			azure(azureTasks, "tasks: {model: azure}", func(c *config.Config) bool {
				return config.Of[task.Settings](c).Model.URL == "${AZURE_OPENAI_ENDPOINT}"
			}),
			azure(azureSearch, "search: {embeddings: azure}", func(c *config.Config) bool {
				return config.Of[embedding.Settings](c).Model.URL == "${AZURE_OPENAI_ENDPOINT}"
			})),
		"AZURE_OPENAI_API_KEY": allOf(
			azure(azureTasks, "tasks: {model: azure}", func(c *config.Config) bool {
				return config.Of[task.Settings](c).
					Model.Key == "${AZURE_OPENAI_API_KEY}"
			}),
			azure(azureSearch, "search: {embeddings: azure}", func(c *config.Config) bool {
				return config.Of[embedding.Settings](c).Model.Key == "${AZURE_OPENAI_API_KEY}"
			})),
		"AZURE_OPENAI_CHAT_DEPLOYMENT_NAME": azure(azureTasks, "tasks: {model: azure}",
			func(c *config.Config) bool { return config.Of[task.Settings](c).Model.Name == "n" }),
		"AZURE_OPENAI_API_VERSION": azure(azureTasks, "tasks: {model: azure}", func(c *config.Config) bool {
			return config.Of[task.Settings](c).Model.APIVersion == "2024-08-01-preview"
		}),
		"AZURE_OPENAI_EMBEDDER_NAME": azure(azureSearch, "search: {embeddings: azure}",
			func(c *config.Config) bool { return config.Of[embedding.Settings](c).Model.Model == "n" }),
		"AZURE_OPENAI_EMBEDDER_VERSION": azure(azureSearch, "search: {embeddings: azure}", func(c *config.Config) bool {
			return config.Of[embedding.Settings](c).Model.APIVersion == "2024-08-01-preview"
		}),
	},
	"Folders": {
		"client/": allOf(exists("clients/python/src/sandpiper/compat.py"),
			executes("import os; result = os.path.exists('/workspace/client')", `"result":false`)),
		"config/":    exists("docs/configuration.md"),
		"workflows/": executes("save_state('flow', {'total': 8})\nresult = get_state('flow')", `"result":\{"total":8\}`),
		"plugins/":   exists("docs/guardrails.md"),
		"scripts/":   executes("import servers; result = dir(servers)", `"result":\["calculator","station","weather"\]`),
		"servers/": executes("import os\ntry: open('/workspace/servers/x', 'w')\nexcept OSError as e: result = "+
			"sorted(os.listdir('/workspace/servers/calculator'))", `"result":\["__init__.py","tools.py"\]`),
		"workspace/": allOf(prints("", "files", "put", "workspace", "--as", "."),
			executes("result = json.loads(read_file('state/results.json'))", `"result":\{"step":1,"result":8\}`)),
		"workspace/state/": executes("import os\nos.makedirs('/workspace/state', exist_ok=True)\nwith "+
			"open('/workspace/state/new.json', 'w') as f: f.write('1')\nresult = read_file('state/new.json')", `"result":"1"`),
		"workspaces/{customer_uid}/": runsPython(customers, "{'step': 1} True"),
		"sessions/":                  sessionLog(`"session_id":"session_001"`),
		"skills/": executes("import os\nfrom skills import double_number\nresult = [double_number(15), "+
			"os.listdir('/workspace/skills')]", `"result":\[30,\[.*"double_number.py"`),
		"logs/":     logsAreWritten,
		"examples/": exists("examples/02_multi_tool_chain"),
	},
	"Session log": {
		"session_id customer_uid started_at ended_at": sessionLog(`"session_id":"session_001"`, `"customer_uid":"local"`, `"started_at":"2`,
			`"ended_at":"2`),
		"tasks": sessionLog(`"tasks":\[\{"task_id":"task_001","description":"","code":"`, `"result":"8"`, `"output":"saved"`,
			`"timestamp":"2`),
		"state_files": sessionLog(`"state_files":\["/workspace/state/results_001.json"\]`),
		"checkpoint":  sessionLog(`"checkpoint":\{"step":3,"last_task":"task_\d+","context":"Working on data analysis","timestamp":"2`),
	},
	"Commands": {
		"pip install -r requirements.txt":                 exists("clients/python/pyproject.toml"), // installed by TestPythonClientInstalls
		"pip install -r requirements-dev.txt":             exists("Makefile"),
		`curl -sSL https://get.microsandbox.dev | sh`:     exists("docs/install.md"),
		"ruff check . black . pre-commit run --all-files": exists(".ci/run"),
		"msb server start --dev":                          prints("The process sandbox works", "doctor"),
		"msb --version":                                   prints(`sandpiper .*\n`, "version"),
		"lsmod | grep kvm":                                prints("namespaces +enforced", "doctor"),
		"python scripts/generate_tool_files.py":           prints(`weather +[0-9]+ tools`, "tools", "sync"),
		"python examples/NN_NAME.py": allOf(exists("examples/01_basic_tool_call/README.md"),
			exists("examples/02_multi_tool_chain/README.md"), exists("examples/03_data_filtering/README.md"),
			exists("examples/04_control_flow/README.md"),
			exists("examples/05_state_persistence/README.md"), exists("examples/06_skills/README.md"),
			exists("examples/07_filesystem_operations/README.md"), prints("Paris", "task", "run", "Get weather for Paris")),
		"pytest": exists("clients/python/tests/test_compat.py"),
		"mypy .": exists("clients/python/src/sandpiper/py.typed"),
	},
}

// customers are two sessions of a customer, and another one that sees nothing of it.
const customers = `
def create_executor_for_customer(customer_uid, base_config):
    return SandboxExecutor(execution_config=ExecutionConfig(workspace_dir=f"./workspaces/{customer_uid}", servers_dir=base_config.servers_dir,
        skills_dir=base_config.skills_dir, sandbox_type=base_config.sandbox_type, sandbox_image=base_config.sandbox_image,
        allow_network_access=base_config.allow_network_access), guardrail_config=base_config.guardrails)
config = load_config()
create_executor_for_customer("user_12345", config).execute(code="import os, json\nos.makedirs('/workspace/state', exist_ok=True)\njson.dump({'step': 1}, open('/workspace/state/results.json', 'w'))")
read = "print(json.load(open('/workspace/state/results.json')))"
print(create_executor_for_customer("user_12345", config).execute(read).output, create_executor_for_customer("user_2", config).execute(read).output is None)
`

// workflowRuns checks, saves and runs a workflow.
func workflowRuns(t *testing.T, m *migrated) {
	writeAll(t, m.dir, map[string]string{"flow.yaml": "name: flow\nsteps:\n- {name: two, type: code_execution, config: {code: result = 1 " +
		"+ 1}}\n"})
	prints("", "workflow", "check", "flow.yaml")(t, m)
	prints("", "workflow", "save", "flow.yaml")(t, m)
	prints("2", "workflow", "run", "flow.yaml")(t, m)
}

func restoresPII(t *testing.T, m *migrated) {
	var got struct {
		Text string `json:"sanitized_text"`
	}
	if err := json.Unmarshal([]byte(m.first.call(t, "sanitize_pii", "{"+pii+"}")), &got); err != nil {
		t.Fatal(err)
	}
	args, err := json.Marshal(map[string]string{"text": got.Text})
	if err != nil {
		t.Fatal(err)
	}
	contains(t, m.first.call(t, "restore_pii", string(args)), `"restored_text":"Contact john@example.com at 555-123-4567"`)
}

var tokenized = evaluates("sanitized, tokens = tokenize_pii('Contact john@example.com')\nresult = [sanitized.startswith('Contact "+
	"[EMAIL_'), len(tokens), detokenize_pii(sanitized, tokens) == 'Contact john@example.com', detokenize_pii(sanitized) == 'Contact "+
	"john@example.com']",
	`"result":\[true,1,true,true\]`)

func unusedWorkspace(t *testing.T, m *migrated) {
	cmd := sandpiper(m.first.cmd.Dir, "files", "put", "agentic/mcp-servers/code-execution-mcp/workspace", "--as", ".")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	contains(t, string(out), `workspace of AGENTIC_SYSTEM_PATH has no effect.*sandpiper files put /.*/workspace --as \. copies`)
	evaluates("result = json.loads(read_file('scan_results.json'))[0]", `"result":\{"severity":"high"\}`)(t, m)
}

// initialized checks that init adds Sandpiper to Claude Code, beside the entry of the seed.
func initialized(t *testing.T, _ *migrated) {
	dir := t.TempDir()
	writeAll(t, dir, map[string]string{".claude.json": `{"mcpServers": {"code-execution": {"command": ` +
		`"/mnt/agentic-system/.venv/bin/python3", "args": ` +
		`["/mnt/agentic-system/mcp-servers/code-execution-mcp/src/code_execution_mcp/server.py"], "disabled": false}}}`})
	cmd := sandpiper(dir, "init", "--apply", "claude-code", "--yes")
	cmd.Env = append(cmd.Env, "HOME="+dir, "XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "CLAUDE_CONFIG_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, ".claude.json"))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(text), `"sandpiper": ?\{"command": "[^"]*sandpiper", "args": \["serve"\]`)
}

// sessionLog runs a task in a session and checks the log that code reads. Each call has a session
// of its own; only the number in its name differs.
func sessionLog(want ...string) check {
	return func(t *testing.T, m *migrated) {
		code := "import os\nos.makedirs('/workspace/state', exist_ok=True)\nwrite_file('state/results_001.json', " +
			"str(8))\nprint('saved')\nresult = 8\ncheckpoint(3, 'Working on data analysis')"
		args, err := json.Marshal(map[string]string{"code": code, "session_id": "session_001"})
		if err != nil {
			t.Fatal(err)
		}
		contains(t, m.second.call(t, "execute_code", string(args)), `"success":true`)
		var log bytes.Buffer
		out, err := sandpiper(m.dir, "session", "show", "session_001", "--json").Output()
		if err == nil {
			err = json.Compact(&log, out)
		}
		if err != nil {
			t.Fatal(err)
		}
		contains(t, log.String(), want...)
		executes("import time\nfrom pathlib import Path\np = Path('/workspace/sessions/session_001.json')\nwhile not p.exists(): "+
			"time.sleep(0.01)\nresult = [json.loads(p.read_text())['session_id'], "+
			"Path('/workspace/sessions/current_session.json').exists()]", `"result":\["session_001",true\]`)(t, m)
	}
}

func logsAreWritten(t *testing.T, m *migrated) {
	text, err := os.ReadFile(filepath.Join(m.dir, "logs", "code-execution-mcp.log"))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(text), `imported skills.*double_number`)
}
