package clientconfig

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Clients lists the supported clients in the order in which they are read.
var Clients = []Client{
	{"claude-code", "Claude Code"}, {"claude-desktop", "Claude Desktop"}, {"cursor", "Cursor"},
	{"vscode", "VS Code"}, {"codex", "Codex"}, {"gemini", "Gemini CLI"}, {"windsurf", "Windsurf"},
	{"zed", "Zed"}, {"opencode", "opencode"}, {"junie", "JetBrains Junie"},
}

// ClientByID returns the client with an id.
func ClientByID(id string) (Client, bool) {
	i := slices.IndexFunc(Clients, func(c Client) bool { return c.ID == id })
	if i < 0 {
		return Client{}, false
	}
	return Clients[i], true
}

// places lists the files that may contain servers, with the path of keys that leads to them. The first of
// each client is edited for all projects, the first below "." for one project. Directories with patterns
// count if they exist. Sources: docs/init.md.
var places = []struct{ client, table, root, path string }{
	{"claude-code", "mcpServers", "CLAUDE", ".claude.json"},
	{"claude-code", "mcpServers", ".", ".mcp.json"},
	// The Windows installer of Claude Desktop is a store package, whose files Windows redirects.
	{"claude-desktop", "mcpServers", "LOCAL", "Claude-Data/[Cc]laude*/claude_desktop_config.json"},
	{"claude-desktop", "mcpServers", "LOCAL", "Packages/*Claude*/LocalCache/Roaming/Claude/claude_desktop_config.json"},
	{"claude-desktop", "mcpServers", "APPS", "Claude/claude_desktop_config.json"},
	{"cursor", "mcpServers", "HOME", ".cursor/mcp.json"},
	{"cursor", "mcpServers", ".", ".cursor/mcp.json"},
	{"vscode", "servers", "APPS", "Code/User/mcp.json"},
	{"vscode", "servers", "APPS", "Code/User/profiles/*/mcp.json"},
	{"vscode", "mcp.servers", "APPS", "Code/User/settings.json"},
	{"vscode", "servers", "APPS", "Code - Insider[s]/User/mcp.json"},
	{"vscode", "servers", "APPS", "Code - Insiders/User/profiles/*/mcp.json"},
	{"vscode", "mcp.servers", "APPS", "Code - Insider[s]/User/settings.json"},
	{"vscode", "servers", "APPS", "VSCodiu[m]/User/mcp.json"},
	{"vscode", "servers", "APPS", "VSCodium/User/profiles/*/mcp.json"},
	{"vscode", "mcp.servers", "APPS", "VSCodiu[m]/User/settings.json"},
	{"vscode", "servers", ".", ".vscode/mcp.json"},
	{"vscode", "mcp.servers", ".", ".vscode/settings.json"},
	{"codex", "mcp_servers", "CODEX", "config.toml"},
	{"codex", "mcp_servers", ".", ".codex/config.toml"},
	{"gemini", "mcpServers", "HOME", ".gemini/settings.json"},
	{"gemini", "mcpServers", ".", ".gemini/settings.json"},
	{"windsurf", "mcpServers", "HOME", ".codeium/windsurf/mcp_config.json"},
	{"zed", "context_servers", "ZED", "settings.json"},
	{"zed", "context_servers", ".", ".zed/settings.json"},
	{"opencode", "mcp", "HOME", ".config/opencode/opencode.json"},
	{"opencode", "mcp", "HOME", ".config/opencode/opencode.jsonc"},
	{"opencode", "mcp", ".", "opencode.json"},
	{"opencode", "mcp", ".", "opencode.jsonc"},
	{"junie", "mcpServers", "HOME", ".junie/mcp/mcp.json"},
	{"junie", "mcpServers", ".", ".junie/mcp/mcp.json"},
}

// files returns the files that may contain servers, whether they exist or not. In the home directory a
// project file is also the user's own file.
func files(env Env) (all []File) {
	for _, place := range places {
		root := rootOf(env, place.root)
		if root == "" {
			continue
		}
		dir, name := filepath.Split(filepath.FromSlash(place.path))
		dirs := []string{filepath.Join(root, dir)}
		if strings.ContainsAny(dir, "*[") {
			dirs, _ = filepath.Glob(filepath.Join(root, dir))
		}
		c, _ := ClientByID(place.client)
		for _, dir := range dirs {
			f := File{c, filepath.Join(dir, name), place.root == ".", strings.Split(place.table, "."), filepath.Ext(name) == ".toml"}
			if !slices.ContainsFunc(all, func(o File) bool { return o.Path == f.Path }) {
				all = append(all, f)
			}
		}
	}
	return all
}

// rootOf returns a directory of places, "" if there is none.
func rootOf(env Env, name string) string {
	config := filepath.Join(env.Home, ".config")
	if dir := env.variable("XDG_CONFIG_HOME"); env.OS == "linux" && filepath.IsAbs(dir) {
		config = dir
	}
	apps := config // with the settings of desktop applications
	switch env.OS {
	case "windows":
		apps = cmp.Or(env.variable("APPDATA"), filepath.Join(env.Home, "AppData", "Roaming"))
	case "darwin":
		apps = filepath.Join(env.Home, "Library", "Application Support")
	}
	switch {
	case name == ".":
		return env.Dir
	case name == "CLAUDE":
		return cmp.Or(env.variable("CLAUDE_CONFIG_DIR"), env.Home)
	case name == "CODEX":
		return cmp.Or(env.variable("CODEX_HOME"), filepath.Join(env.Home, ".codex"))
	case name == "ZED" && env.OS == "windows":
		return filepath.Join(apps, "Zed")
	case name == "ZED":
		return filepath.Join(config, "zed")
	case name == "APPS":
		return apps
	case name == "LOCAL" && env.OS != "windows":
		return ""
	case name == "LOCAL":
		return env.variable("LOCALAPPDATA")
	}
	return env.Home
}

// installed returns the clients that have a file or a directory of their own.
func installed(env Env) []Client {
	var found []Client
	for _, f := range files(env) {
		dir := filepath.Dir(f.Path)
		ownDir := dir != env.Home && dir != env.Dir && exists(dir)
		if (exists(f.Path) || ownDir && !f.Project) && !slices.Contains(found, f.Client) {
			found = append(found, f.Client)
		}
	}
	return found
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Target returns the file in which a client's servers are edited, for all
// projects or for the one in env.Dir; false if the client has no such file.
func Target(env Env, c Client, project bool) (File, bool) {
	candidates := slices.DeleteFunc(files(env), func(f File) bool { return f.Client != c || f.Project != project })
	for _, f := range candidates {
		if exists(f.Path) && len(f.table) == 1 {
			return f, true
		}
	}
	if len(candidates) == 0 {
		return File{}, false
	}
	return candidates[0], true
}
