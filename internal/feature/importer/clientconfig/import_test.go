package clientconfig_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/importer/clientconfig"
)

// newEnv creates a home directory with files, in which it replaces HOME by its
// path, and the project "shop" in it as the working directory.
func newEnv(t *testing.T, system string, files map[string]string, environ ...string) clientconfig.Env {
	t.Helper()
	home := t.TempDir()
	env := clientconfig.Env{OS: system, Home: home, Dir: filepath.Join(home, "shop"), Lookup: func(name string) (string, bool) {
		for _, e := range environ {
			if value, ok := strings.CutPrefix(e, name+"="); ok {
				return strings.ReplaceAll(value, "HOME", home), true
			}
		}
		return "", false
	}}
	if err := os.Mkdir(env.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		write(t, filepath.Join(home, name), strings.ReplaceAll(text, "HOME", home))
	}
	return env
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// format lists the result of Find, one item per line, with HOME for the home
// directory.
func format(env clientconfig.Env, f clientconfig.Found) string {
	var b strings.Builder
	for _, s := range f.Servers {
		var from []string
		for _, o := range s.From {
			from = append(from, o.File.Client.ID)
		}
		fmt.Fprintf(&b, "%s (%s):", s.Name, strings.Join(from, " "))
		for _, text := range append([]string{s.Command}, s.Args...) {
			if text != "" {
				fmt.Fprintf(&b, " %s", text)
			}
		}
		fmt.Fprintf(&b, "%s %s", s.URL, s.Transport)
		for _, m := range []map[string]string{s.Env, s.Headers} {
			if len(m) > 0 {
				fmt.Fprintf(&b, " %v", m)
			}
		}
		if s.Dir != "" {
			fmt.Fprintf(&b, " in %s", s.Dir)
		}
		if s.Timeout > 0 {
			fmt.Fprintf(&b, " %s", s.Timeout)
		}
		for _, n := range s.Notes {
			fmt.Fprintf(&b, "; %s", n)
		}
		b.WriteByte('\n')
	}
	for _, l := range f.Skipped {
		fmt.Fprintf(&b, "- %s (%s): %s\n", l.Name, l.Client.ID, l.Reason)
	}
	for _, p := range f.Problems {
		fmt.Fprintf(&b, "! %s line %d %s\n", p.Path, p.Line, p.Message)
	}
	for _, v := range f.Variables {
		fmt.Fprintf(&b, "$ %s for %s set=%t", v.Name, strings.Join(v.Servers, ","), v.Set)
		if v.Description != "" {
			fmt.Fprintf(&b, " (%s)", v.Description)
		}
		if v.File != "" {
			fmt.Fprintf(&b, " from %s", filepath.Base(v.File))
		}
		b.WriteByte('\n')
	}
	return strings.ReplaceAll(b.String(), env.Home, "HOME")
}

func expect(t *testing.T, env clientconfig.Env, f clientconfig.Found, want string) {
	t.Helper()
	if d := cmp.Diff(strings.TrimLeft(want, "\n"), format(env, f)); d != "" {
		t.Errorf("Find (-want +got):\n%s", d)
	}
}

func TestFindReadsEveryClient(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{
		".claude.json": `{"numStartups": 3, "mcpServers": {
			"github": {"type": "stdio", "command": "npx", "args": ["-y", "server-github"], "env": {"GITHUB_TOKEN": "ghp_0123456789abcdefghij"}}},
			"projects": {"HOME/shop": {"mcpServers": {"notes": {"command": "node", "args": ["./notes.js"]}}},
				"HOME/gone": {"mcpServers": {"old": {"command": "x"}}}}}`,
		".config/Claude/claude_desktop_config.json": `{"mcpServers": {"files": {"command": "npx", "args": ["-y", "server-filesystem", ` +
			`"/data"]}}}`,
		".cursor/mcp.json": `{"mcpServers": { // with comments
			"github": {"command": "npx", "args": ["-y", "server-github"], "env": {"GITHUB_TOKEN": "${env:GITHUB_TOKEN}"}},
			"remote": {"url": "https://example.com/mcp", "headers": {"X-Api-Key": "k123"}}, },}`,
		".config/Code/User/mcp.json": `{"inputs": [{"id": "ask-key", "type": "promptString", "description": "Key of ask", "password": true}],
			"servers": {"ask": {"type": "http", "url": "https://ask.example/mcp", "headers": {"Authorization": "Bearer ${input:ask-key}"}}}}`,
		".config/Code/User/settings.json": `{"editor.tabSize": 2, "mcp": {"servers": {"older": {"type": "sse", "url": ` +
			`"http://localhost:1/sse"}}}}`,
		".config/Code/User/profiles/1a/mcp.json": `{"servers": {"of-profile": {"command": "p", "cwd": "${userHome}/p"}}}`,
		".codex/config.toml": "model = \"o\"\n[mcp_servers.z]\nurl = \"https://z.example\"\nbearer_token_env_var " +
			"= \"Z_TOKEN\"\nenv_http_headers = {\"X-Org\" = \"ORG\"}\nhttp_headers = {\"X-Kind\" = \"a\"}\ntool_timeout_sec = " +
			"1.5\n[mcp_servers.a]\ncommand = \"a\"\nargs = []\nenv_vars = [\"SITE\", {name = \"ELSEWHERE\", source = " +
			"\"remote\"}]\nenabled_tools = [\"x\"]\n[mcp_servers.a.env]\nLEVEL = \"2\"\n",
		".gemini/settings.json": `{"mcpServers": {"g": {"httpUrl": "https://g.example/mcp", "headers": ` +
			`{"Authorization": "Bearer $G_TOKEN"}, "timeout": 2000}, "s": {"url": "https://g.example/sse"}, "x": {"command": "x"}}, ` +
			`"mcp": {"excluded": ["x"]}}`,
		".gemini/mcp-server-enablement.json":         `{"s": {"enabled": false}}`,
		"shop/.mcp.json":                             `{"mcpServers": {"shop": {"command": "shop"}}}`,
		".config/Code/User/globalStorage/other.json": `{"servers": {"unseen": {"command": "x"}}}`,
	}, "ORG=mine")
	expect(t, env, clientconfig.Find(env, false), `
github (claude-code cursor): npx -y server-github  map[GITHUB_TOKEN:${GITHUB_TOKEN}]
notes (claude-code): node ./notes.js  in HOME/shop
files (claude-desktop): npx -y server-filesystem /data 
remote (cursor):https://example.com/mcp  map[X-Api-Key:${REMOTE_API_KEY}]
ask (vscode):https://ask.example/mcp http map[Authorization:Bearer ${ASK_KEY}]
of-profile (vscode): p  in HOME/p
older (vscode):http://localhost:1/sse sse
z (codex):https://z.example  map[Authorization:Bearer ${Z_TOKEN} X-Kind:a X-Org:${ORG}] 1.5s
a (codex): a  map[ELSEWHERE:${ELSEWHERE} LEVEL:2 SITE:${SITE}]; its tool filter (enabled_tools) is not imported; all its tools can be called
g (gemini):https://g.example/mcp http map[Authorization:Bearer ${G_TOKEN}] 2s
- old (claude-code): its project directory does not exist
- shop (claude-code): it is in a project file; --here imports it
- s (gemini): it is disabled there
- x (gemini): it is excluded there
$ ASK_KEY for ask set=false (Key of ask)
$ ELSEWHERE for a set=false
$ GITHUB_TOKEN for github set=false from .claude.json
$ G_TOKEN for g set=false
$ ORG for z set=true
$ REMOTE_API_KEY for remote set=false from mcp.json
$ SITE for a set=false
$ Z_TOKEN for z set=false
`)
}

func TestFindReadsProjectFiles(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{
		".claude.json": `{"projects": {"HOME/shop": {"disabledMcpjsonServers": ["off"]}}}`,
		"shop/.mcp.json": `{"mcpServers": {"db": {"command": "node", "args": ["${CLAUDE_PROJECT_DIR}/db.js", ` +
			`"${MODE:-fast}"]}, "off": {"command": "x"}}}`,
		"shop/.cursor/mcp.json": `{"mcpServers": {"rel": {"command": "./run", "cwd": "tools", "envFile": ".env.local"}}}`,
		"shop/.env.local":       "# ours\nexport STRIPE=1\nBAD NAME=2\n",
		"shop/.vscode/mcp.json": `{"servers": {"ws": {"command": "node", "args": ` +
			`["${workspaceFolder}/${workspaceFolderBasename}.js"]}}}`,
		"shop/.codex/config.toml":    "[mcp_servers.c]\ncommand = \"c\"\n",
		"shop/.gemini/settings.json": `{"mcpServers": {"g": {"command": "g"}}}`,
	})
	expect(t, env, clientconfig.Find(env, true), `
db (claude-code): node HOME/shop/db.js fast  in HOME/shop; $MODE is not set; its default is used
rel (cursor): ./run  map[STRIPE:${STRIPE}] in HOME/shop/tools
ws (vscode): node HOME/shop/shop.js  in HOME/shop
c (codex): c  in HOME/shop
g (gemini): g  in HOME/shop
- off (claude-code): it is disabled in this project
$ STRIPE for rel set=false (its value is in HOME/shop/.env.local)
`)
}

func TestFindIgnoresUnusableEnvFiles(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{
		".cursor/mcp.json": `{"mcpServers": {"rel": {"command": "r", "envFile": ".env.local"}, "dir": {"command": "d", "envFile": "HOME/shop"},
			"large": {"command": "l", "envFile": "HOME/large.env"}}}`,
		"large.env": "A=" + strings.Repeat("x", 1<<20),
	})
	t.Chdir(env.Dir)
	write(t, ".env.local", "STRIPE=1\n")
	expect(t, env, clientconfig.Find(env, false), `
rel (cursor): r ; its envFile is not imported: it is relative to an unknown directory
dir (cursor): d ; its envFile is not imported: it cannot be read
large (cursor): l ; its envFile is not imported: it cannot be read
`)
}

func TestTimeoutIsAtMostOneDay(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{
		".cursor/mcp.json": `{"mcpServers": {"a": {"command": "a", "timeout": 1e300}, "b": {"command": "b", "timeout": "Inf"}, "n": ` +
			`{"command": "n", "timeout": "NaN"}}}`,
		".codex/config.toml": "[mcp_servers.c]\ncommand = \"c\"\ntool_timeout_sec = 1e30\n",
	})
	expect(t, env, clientconfig.Find(env, false), "a (cursor): a  24h0m0s\nb (cursor): b  24h0m0s\nn (cursor): n \nc (codex): c  24h0m0s\n")
}

func TestFindUsesPathsOfOperatingSystem(t *testing.T) {
	desktop := `{"mcpServers": {"d": {"command": "d"}}}`
	code := `{"servers": {"v": {"command": "v"}}}`
	for system, tc := range map[string]struct {
		desktop, code string
		environ       []string
	}{
		"linux":  {"xdg/Claude", "xdg/Code/User", []string{"XDG_CONFIG_HOME=HOME/xdg"}},
		"darwin": {"Library/Application Support/Claude", "Library/Application Support/Code - Insiders/User", nil},
		"windows": {"Local/Packages/Claude_pzs8/LocalCache/Roaming/Claude", "Roaming/Code/User",
			[]string{"APPDATA=HOME/Roaming", "LOCALAPPDATA=HOME/Local"}},
	} {
		t.Run(system, func(t *testing.T) {
			env := newEnv(t, system, map[string]string{
				tc.desktop + "/claude_desktop_config.json": desktop, tc.code + "/mcp.json": code,
				"c/.claude.json": `{"mcpServers": {"moved": {"command": "m"}}}`, "x/config.toml": "[mcp_servers.x]\ncommand = \"x\"\n",
			}, append(tc.environ, "CLAUDE_CONFIG_DIR=HOME/c", "CODEX_HOME=HOME/x")...)
			expect(t, env, clientconfig.Find(env, false), `
moved (claude-code): m 
d (claude-desktop): d 
v (vscode): v 
x (codex): x 
`)
		})
	}
}

func TestFindReportsInvalidFilesAndReadsOthers(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{
		".claude.json": "{\n  \"mcpServers\": {\n    \"a\": {\"env\": {\"K\": ghp_secretsecretsecret}}\n  }\n}",
		".config/Claude/claude_desktop_config.json": strings.Repeat("[", 50_000),
		".cursor/mcp.json": `{"mcpServers": {"good": {"command": "g"}, "bad": 7, "empty": {}, "both": ` +
			`{"command": "x", "url": "http://x"}, "ftp": {"url": "ftp://x"}, "odd": {"type": "ws", "url": "http://x"}, "n": {"command": ` +
			`"x", "args": "y"}}}`,
		".config/Code/User/mcp.json": `{"servers": []}`,
		".codex/config.toml":         "a = 1\nb = sk-secretsecretsecret\n",
		".gemini/settings.json":      "",
	})
	expect(t, env, clientconfig.Find(env, false), `
good (cursor): g 
- empty (cursor): it has neither command nor url
- both (cursor): it has both command and url
- ftp (cursor): its url is not http or https
- odd (cursor): its transport "ws" is not supported
- n (cursor): its args are not a list
! HOME/.claude.json line 3 is not JSON
! HOME/.config/Claude/claude_desktop_config.json line 0 is nested too deeply
! HOME/.cursor/mcp.json line 0 has a server "bad" that is not a table
! HOME/.config/Code/User/mcp.json line 0 servers is not a table of servers
! HOME/.codex/config.toml line 2 is not TOML
`)
}

func TestNestingIgnoresStringsAndComments(t *testing.T) {
	many := strings.Repeat("[{", 20_000)
	env := newEnv(t, "linux", map[string]string{
		".claude.json":     `{"history": ["a \" ` + many + `", "\\"], "mcpServers": {"a": {"command": "a"}}}`,
		".cursor/mcp.json": "{ // don't \" " + many + "\n /* \" " + many + " */ \"mcpServers\": {\"b\": {\"command\": \"b/*\"}}}",
	})
	expect(t, env, clientconfig.Find(env, false), "a (claude-code): a \nb (cursor): b/* \n")
}

func TestFindMergesEqualServersAndRenamesOthers(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{
		".claude.json": `{"mcpServers": {"same": {"command": "s"}, "acc": {"command": "a", "env": {"TOKEN": "one-one-one"}}},
			"projects": {"HOME/shop": {"mcpServers": {"here": {"command": "npx", "args": ["h"]}, "own": {"command": "./own"}}},
			             "HOME": {"mcpServers": {"here": {"command": "npx", "args": ["h"]}, "own": {"command": "./own"}}}}}`,
		".cursor/mcp.json": `{"mcpServers": {"other-name": {"command": "s"}, "acc": {"command": "a", "env": {"TOKEN": ` +
			`"two-two-two"}}, "u": {"url": "https://u.example/mcp"}}}`,
		".gemini/settings.json": `{"mcpServers": {"ACC": {"command": "a", "env": {"TOKEN": "three-three"}}, "u": {"httpUrl": ` +
			`"https://u.example/mcp/"}}}`,
	})
	expect(t, env, clientconfig.Find(env, false), `
same (claude-code cursor): s 
acc (claude-code): a  map[TOKEN:${TOKEN}]
here (claude-code claude-code): npx h 
own (claude-code): ./own  in HOME/shop
own-`+strings.ToLower(filepath.Base(env.Home))+` (claude-code): ./own  in HOME
acc-cursor (cursor): a  map[TOKEN:${ACC_CURSOR_TOKEN}]
u (cursor gemini):https://u.example/mcp http
ACC-gemini (gemini): a  map[TOKEN:${ACC_GEMINI_TOKEN}]
$ ACC_CURSOR_TOKEN for acc-cursor set=false from mcp.json
$ ACC_GEMINI_TOKEN for ACC-gemini set=false from settings.json
$ TOKEN for acc set=false from .claude.json
`)
}

func TestFindAvoidsVariablesWithOtherValues(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{
		".cursor/mcp.json": `{"mcpServers": {"a": {"command": "a", "env": {"API_KEY": "mine", "OTHER_KEY": "as-set"}}}}`,
	}, "API_KEY=another", "OTHER_KEY=as-set")
	expect(t, env, clientconfig.Find(env, false), `
a (cursor): a  map[API_KEY:${A_API_KEY} OTHER_KEY:${OTHER_KEY}]
$ A_API_KEY for a set=false from mcp.json
$ OTHER_KEY for a set=true from mcp.json
`)
}

func TestFindKeepsReferencesApartFromSecretsOfOthers(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{
		".cursor/mcp.json": `{"mcpServers": {"a": {"command": "a", "env": {"TOKEN": "${env:TOKEN}"}}, "b": {"command": "b", "env": ` +
			`{"TOKEN": "of-b"}}}}`,
	})
	expect(t, env, clientconfig.Find(env, false), `
a (cursor): a  map[TOKEN:${TOKEN}]
b (cursor): b  map[TOKEN:${B_TOKEN}]
$ B_TOKEN for b set=false from mcp.json
$ TOKEN for a set=false
`)
}

func TestFindReportsUnsupportedReferences(t *testing.T) {
	for value, why := range map[string]string{
		"${workspaceFolder}/x":        "it refers to ${workspaceFolder}, which only Cursor supports",
		"${command:pick}":             "it refers to ${command:pick}, which only Cursor supports",
		"${A:-secret${B}}":            "it refers to ${A}, which only Cursor supports",
		"${open":                      "it has a ${ without }",
		"${file:/etc/shadow}":         "it refers to ${file:/etc/shadow}, which only Cursor supports",
		"${CLAUDE_PLUGIN_ROOT:bogus}": "it refers to ${CLAUDE_PLUGIN_ROOT:bogus}, which only Cursor supports",
	} {
		env := newEnv(t, "linux", map[string]string{".cursor/mcp.json": `{"mcpServers": {"a": {"command": "a", "args": ["` + value +
			`"]}}}`})
		expect(t, env, clientconfig.Find(env, false), "- a (cursor): "+why+"\n")
	}
}

func TestFindSkipsSandpiper(t *testing.T) {
	env := newEnv(t, "linux", nil)
	env.Self = filepath.Join(env.Home, "bin", "piper-of-mine")
	write(t, env.Self, "")
	link := filepath.Join(env.Home, "link")
	if err := os.Symlink(env.Self, link); err != nil {
		t.Fatal(err)
	}
	for entry, want := range map[string]bool{
		`{"command": "sandpiper", "args": ["serve"]}`:                                         true,
		`{"command": "sandpiper"}`:                                                            true,
		`{"command": "C:\\Tools\\Sandpiper.EXE", "args": ["serve"]}`:                          true,
		`{"command": "` + env.Self + `", "args": ["serve", "--profile", "lean"]}`:             true,
		`{"command": "` + link + `"}`:                                                         true,
		`{"command": "go", "args": ["run", "./cmd/sandpiper", "serve"]}`:                      true,
		`{"command": "go", "args": ["run", "example.com/x/cmd/sandpiper@v1.2.3", "serve"]}`:   true,
		`{"command": "sh", "args": ["-c", "exec '/opt/sandpiper' serve --config x"]}`:         true,
		`{"command": "cmd", "args": ["/c", "sandpiper.exe serve"]}`:                           true,
		`{"command": "docker", "args": ["run", "-i", "ghcr.io/x/sandpiper:latest", "serve"]}`: true,
		`{"command": "npx", "args": ["server-filesystem", "/home/me/sandpiper"]}`:             false,
		`{"command": "git-server", "args": ["--repo", "sandpiper", "--readonly"]}`:            false,
		`{"command": "sandpiper-notes", "args": ["serve"]}`:                                   false,
		`{"url": "http://127.0.0.1:8765/mcp"}`:                                                false,
	} {
		write(t, filepath.Join(env.Home, ".cursor/mcp.json"), `{"mcpServers": {"a": `+entry+`}}`)
		f := clientconfig.Find(env, false)
		if got := len(f.Skipped) == 1 && f.Skipped[0].Reason == clientconfig.ReasonSandpiper; got != want {
			t.Errorf("isSandpiper(%s) = %t, want %t", entry, got, want)
		}
	}
	write(t, filepath.Join(env.Home, ".cursor/mcp.json"), `{"mcpServers": {"Sandpiper": {"url": "http://127.0.0.1:8765/mcp"}}}`)
	if f := clientconfig.Find(env, false); len(f.Skipped) != 1 {
		t.Errorf("server named Sandpiper: %+v", f.Skipped)
	}
}

func TestServersOfFurtherClients(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{
		".codeium/windsurf/mcp_config.json": `{"mcpServers": {"a": {"command": "cmd-a", "args": ["-x"]}, "b": {"serverUrl": ` +
			`"https://b.example/mcp"}}}`,
		".config/zed/settings.json": `{/* mine */ "theme": "One", "context_servers": {"c": {"source": "custom", "command": ` +
			`"cmd-c", "args": ["1"]}, "d": {"command": {"path": "cmd-d", "args": ["2"]}}, "e": {"url": "https://e.example/mcp"}}}`,
		".config/opencode/opencode.jsonc": `{"mcp": {"f": {"type": "local", "command": ["cmd-f", "--y"], "environment": {"K": ` +
			`"{env:K}"}}, "g": {"type": "remote", "url": "https://g.example/mcp"}, "h": {"type": "local", "command": ["x"], "enabled": ` +
			`false}}}`,
		".junie/mcp/mcp.json": `{"mcpServers": {"i": {"command": "cmd-i"}}}`,
	})
	got := map[string]string{}
	for _, s := range clientconfig.Find(env, false).Servers {
		got[s.Name] = strings.TrimSpace(s.From[0].File.Client.ID + " " + strings.Join(append([]string{s.Command}, s.Args...),
			" ") + s.URL + " " + s.Env["K"])
	}
	want := map[string]string{"a": "windsurf cmd-a -x", "b": "windsurf https://b.example/mcp", "c": "zed cmd-c 1", "d": "zed cmd-d 2",
		"e": "zed https://e.example/mcp",
		"f": "opencode cmd-f --y ${K}", "g": "opencode https://g.example/mcp", "i": "junie cmd-i"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestFirstFrameworksServerIsNotImported(t *testing.T) {
	env := newEnv(t, "linux", nil)
	for entry, want := range map[string]bool{
		`{"command": "/mnt/agentic-system/.venv/bin/python3", "args": ` +
			`["/mnt/agentic-system/mcp-servers/code-execution-mcp/src/code_execution_mcp/server.py"]}`: true,
		`{"command": "py", "args": ["C:\\mcp\\src\\code_execution_mcp\\server.py"]}`:      true,
		`{"command": "uv", "args": ["run", "python", "-m", "code_execution_mcp.server"]}`: true,
		`{"command": "npx", "args": ["-y", "code-execution-mcp"]}`:                        false,
	} {
		write(t, filepath.Join(env.Home, ".cursor/mcp.json"), `{"mcpServers": {"code-execution": `+entry+`}}`)
		f := clientconfig.Find(env, false)
		if got := len(f.Skipped) == 1 && strings.HasPrefix(f.Skipped[0].Reason, "Sandpiper replaces it"); got != want ||
			len(f.Servers)+len(f.Skipped) != 1 {
			t.Errorf("%s is skipped: %t, want %t", entry, got, want)
		}
	}
}

func TestFoundPrintsNoSecrets(t *testing.T) {
	env := newEnv(t, "linux", map[string]string{".cursor/mcp.json": `{"mcpServers": {"a": {"command": "a", "env": {"API_KEY": ` +
		`"hunter2-hunter2"}}}}`})
	f := clientconfig.Find(env, false)
	if text := fmt.Sprintf("%v %+v %#v", f, f, f.Variables); strings.Contains(text, "hunter2") {
		t.Errorf("printed %s", text)
	}
	if got := f.Variables[0].Reveal(); got != "hunter2-hunter2" {
		t.Errorf("Reveal() = %q", got)
	}
}

func TestFindInEmptyHome(t *testing.T) {
	env := newEnv(t, "linux", nil)
	if f := clientconfig.Find(env, true); len(f.Clients)+len(f.Servers)+len(f.Skipped)+len(f.Problems) > 0 {
		t.Errorf("%+v", f)
	}
}
