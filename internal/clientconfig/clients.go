package clientconfig

import (
	"os"
	"path/filepath"
	"slices"
)

// Client is a program that connects to MCP servers.
type Client struct {
	ID   string // on the command line
	Name string // for display
}

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

// File is a configuration file of a client.
type File struct {
	Client  Client
	Path    string
	Project bool // the file belongs to a project

	table []string // keys that lead to the servers
	toml  bool
}

// SameTable reports whether two values describe the same table of one file.
func (f File) SameTable(o File) bool { return f.Path == o.Path && slices.Equal(f.table, o.table) }

var (
	mcpServers    = []string{"mcpServers"}
	servers       = []string{"servers"}
	settingsTable = []string{"mcp", "servers"}
	codexTable    = []string{"mcp_servers"}
	zedTable      = []string{"context_servers"}
	opencodeTable = []string{"mcp"}
)

// files returns the files that may contain servers, whether they exist or not.
// The first of each client is edited for all projects, the first with Project
// for one project. Sources: docs/init.md.
func files(env Env) []File {
	var all []File
	add := func(id string, table []string, project bool, paths ...string) {
		c, _ := ClientByID(id)
		for _, path := range paths {
			all = append(all, File{Client: c, Path: path, Project: project, table: table, toml: filepath.Ext(path) == ".toml"})
		}
	}
	dir := func(elem ...string) string { return filepath.Join(append([]string{env.Dir}, elem...)...) }
	home := func(elem ...string) string { return filepath.Join(append([]string{env.Home}, elem...)...) }
	add("claude-code", mcpServers, false, claudeFile(env))
	add("claude-code", mcpServers, true, dir(".mcp.json"))
	add("claude-desktop", mcpServers, false, desktopFiles(env)...)
	add("cursor", mcpServers, false, home(".cursor", "mcp.json"))
	add("cursor", mcpServers, true, dir(".cursor", "mcp.json"))
	for _, code := range vscodeDirs(env) {
		add("vscode", servers, false, filepath.Join(code, "mcp.json"))
		profiles, _ := filepath.Glob(filepath.Join(code, "profiles", "*", "mcp.json"))
		add("vscode", servers, false, profiles...)
		add("vscode", settingsTable, false, filepath.Join(code, "settings.json"))
	}
	add("vscode", servers, true, dir(".vscode", "mcp.json"))
	add("vscode", settingsTable, true, dir(".vscode", "settings.json"))
	add("codex", codexTable, false, filepath.Join(codexDir(env), "config.toml"))
	add("codex", codexTable, true, dir(".codex", "config.toml"))
	add("gemini", mcpServers, false, home(".gemini", "settings.json"))
	add("gemini", mcpServers, true, dir(".gemini", "settings.json"))
	add("windsurf", mcpServers, false, home(".codeium", "windsurf", "mcp_config.json"))
	add("zed", zedTable, false, filepath.Join(zedDir(env), "settings.json"))
	add("zed", zedTable, true, dir(".zed", "settings.json"))
	add("opencode", opencodeTable, false, opencodeFile(home(".config", "opencode")))
	add("opencode", opencodeTable, true, opencodeFile(env.Dir))
	add("junie", mcpServers, false, home(".junie", "mcp", "mcp.json"))
	add("junie", mcpServers, true, dir(".junie", "mcp", "mcp.json"))
	return uniquePaths(all)
}

// uniquePaths removes repeated paths: in the home directory a project file is
// also the user's own file.
func uniquePaths(all []File) []File {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(f File) bool {
		repeated := seen[f.Path]
		seen[f.Path] = true
		return repeated
	})
}

func claudeFile(env Env) string {
	if dir := env.variable("CLAUDE_CONFIG_DIR"); dir != "" {
		return filepath.Join(dir, ".claude.json")
	}
	return filepath.Join(env.Home, ".claude.json")
}

func codexDir(env Env) string {
	if dir := env.variable("CODEX_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(env.Home, ".codex")
}

func zedDir(env Env) string {
	if env.OS == "windows" {
		return filepath.Join(appDataDir(env), "Zed")
	}
	if dir := env.variable("XDG_CONFIG_HOME"); env.OS == "linux" && filepath.IsAbs(dir) {
		return filepath.Join(dir, "zed")
	}
	return filepath.Join(env.Home, ".config", "zed")
}

// opencodeFile returns the file of opencode in a directory: one with comments, if that exists.
func opencodeFile(dir string) string {
	if path := filepath.Join(dir, "opencode.jsonc"); exists(path) {
		return path
	}
	return filepath.Join(dir, "opencode.json")
}

// appDataDir returns the directory of the settings of desktop applications.
func appDataDir(env Env) string {
	switch env.OS {
	case "windows":
		if dir := env.variable("APPDATA"); dir != "" {
			return dir
		}
		return filepath.Join(env.Home, "AppData", "Roaming")
	case "darwin":
		return filepath.Join(env.Home, "Library", "Application Support")
	}
	if dir := env.variable("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(env.Home, ".config")
}

// desktopFiles returns the files of Claude Desktop. The Windows installer is a
// store package, whose files Windows redirects to another directory.
func desktopFiles(env Env) []string {
	const name = "claude_desktop_config.json"
	var packaged []string
	if local := env.variable("LOCALAPPDATA"); env.OS == "windows" && local != "" {
		newer, _ := filepath.Glob(filepath.Join(local, "Claude-Data", "[Cc]laude*"))
		older, _ := filepath.Glob(filepath.Join(local, "Packages", "*Claude*", "LocalCache", "Roaming", "Claude"))
		for _, dir := range append(newer, older...) {
			packaged = append(packaged, filepath.Join(dir, name))
		}
	}
	return append(packaged, filepath.Join(appDataDir(env), "Claude", name))
}

// vscodeDirs returns the directories of VS Code, VS Code Insiders and VSCodium;
// the last two only if they exist.
func vscodeDirs(env Env) []string {
	var dirs []string
	for i, name := range []string{"Code", "Code - Insiders", "VSCodium"} {
		dir := filepath.Join(appDataDir(env), name, "User")
		if i == 0 || exists(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
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
		if exists(f.Path) && !slices.Equal(f.table, settingsTable) {
			return f, true
		}
	}
	if len(candidates) == 0 {
		return File{}, false
	}
	return candidates[0], true
}
