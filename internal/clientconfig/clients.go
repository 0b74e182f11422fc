package clientconfig

import (
	"os"
	"path/filepath"
	"slices"
)

// Client is a program that connects to MCP servers.
type Client struct {
	ID   string // on the command line
	Name string // for a person
}

// Clients are all that are known, in the order in which they are read.
var Clients = []Client{
	{"claude-code", "Claude Code"}, {"claude-desktop", "Claude Desktop"}, {"cursor", "Cursor"},
	{"vscode", "VS Code"}, {"codex", "Codex"}, {"gemini", "Gemini CLI"},
}

// Named returns the client with an id.
func Named(id string) (Client, bool) {
	i := slices.IndexFunc(Clients, func(c Client) bool { return c.ID == id })
	if i < 0 {
		return Client{}, false
	}
	return Clients[i], true
}

// File is one of a client's files.
type File struct {
	Client  Client
	Path    string
	Project bool // it stands in a project

	table []string // keys that lead to its servers
	toml  bool
}

// SameTable reports whether two files are one, and hold servers under the same
// keys.
func (f File) SameTable(o File) bool { return f.Path == o.Path && slices.Equal(f.table, o.table) }

var (
	mcpServers = []string{"mcpServers"}
	servers    = []string{"servers"}
	inSettings = []string{"mcp", "servers"}
	codexTable = []string{"mcp_servers"}
)

// files are the places in which servers may stand, whether the files are there
// or not. The first of each client is the one that is edited for all projects,
// the first with Project the one for a project. Sources: docs/init.md.
func files(env Env) []File {
	var all []File
	add := func(id string, table []string, project bool, paths ...string) {
		c, _ := Named(id)
		for _, path := range paths {
			all = append(all, File{Client: c, Path: path, Project: project, table: table, toml: filepath.Ext(path) == ".toml"})
		}
	}
	here := func(elem ...string) string { return filepath.Join(append([]string{env.Dir}, elem...)...) }
	home := func(elem ...string) string { return filepath.Join(append([]string{env.Home}, elem...)...) }
	add("claude-code", mcpServers, false, claudeFile(env))
	add("claude-code", mcpServers, true, here(".mcp.json"))
	add("claude-desktop", mcpServers, false, desktopFiles(env)...)
	add("cursor", mcpServers, false, home(".cursor", "mcp.json"))
	add("cursor", mcpServers, true, here(".cursor", "mcp.json"))
	for _, dir := range codeDirs(env) {
		add("vscode", servers, false, filepath.Join(dir, "mcp.json"))
		profiles, _ := filepath.Glob(filepath.Join(dir, "profiles", "*", "mcp.json"))
		add("vscode", servers, false, profiles...)
		add("vscode", inSettings, false, filepath.Join(dir, "settings.json"))
	}
	add("vscode", servers, true, here(".vscode", "mcp.json"))
	add("vscode", inSettings, true, here(".vscode", "settings.json"))
	add("codex", codexTable, false, filepath.Join(codexDir(env), "config.toml"))
	add("codex", codexTable, true, here(".codex", "config.toml"))
	add("gemini", mcpServers, false, home(".gemini", "settings.json"))
	add("gemini", mcpServers, true, here(".gemini", "settings.json"))
	return once(all)
}

// once leaves out a project's file that is the person's own, in the home
// directory.
func once(all []File) []File {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(f File) bool {
		again := seen[f.Path]
		seen[f.Path] = true
		return again
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

// support is where programs with windows keep their settings.
func support(env Env) string {
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

// desktopFiles are Claude Desktop's. As a package of the Windows store, which it
// also is when it was downloaded, it sees its files elsewhere than where it says.
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
	return append(packaged, filepath.Join(support(env), "Claude", name))
}

// codeDirs are VS Code's, its preview's and its free build's; the first always,
// the others where they are.
func codeDirs(env Env) []string {
	var dirs []string
	for i, name := range []string{"Code", "Code - Insiders", "VSCodium"} {
		dir := filepath.Join(support(env), name, "User")
		if i == 0 || exists(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// present are the clients of which this person has a file or a directory.
func present(env Env) []Client {
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

// Target returns the file of a client that says which servers it uses, in all
// projects or in the one of env.Dir. Claude Desktop knows no projects.
func Target(env Env, c Client, project bool) (File, bool) {
	var first *File
	for _, f := range files(env) {
		if f.Client == c && f.Project == project {
			if exists(f.Path) && !slices.Equal(f.table, inSettings) {
				return f, true
			}
			if first == nil {
				first = &f
			}
		}
	}
	if first == nil {
		return File{}, false
	}
	return *first, true
}
