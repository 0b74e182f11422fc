package clientconfig

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// tables returns the paths of the tables of servers in a document.
func (f File) tables(d document) [][]string {
	all := [][]string{f.table}
	if f.Client.ID == "claude-code" && !f.Project && d.root != nil {
		for _, dir := range d.names([]string{"projects"}) {
			all = append(all, []string{"projects", dir, "mcpServers"})
		}
	}
	return all
}

// entries returns the entries of the file. An error in one table does not
// affect the others.
func (f File) entries(env Env) (list []entry, problem *Problem) {
	d, err := f.document()
	if e, ok := errors.AsType[*syntaxError](err); ok {
		return nil, &Problem{f.Client, f.Path, e.line, e.message}
	}
	for i, table := range f.tables(d) {
		in, project, disabled := f, "", map[string]string{}
		in.table = table // of the entry, for edits
		switch {
		case i > 0:
			project = table[1]
			disabled = withReason(texts(tableAt(d.root, table[:2])["disabledMcpServers"]), "it is disabled in that project")
		case f.Project:
			project = projectDir(f.Path)
		}
		if i == 0 {
			disabled = disabledServers(f, env, d)
		}
		more, message := in.entriesIn(d, project, disabled)
		if list = append(list, more...); message != "" && problem == nil {
			problem = &Problem{Client: f.Client, Path: f.Path, Message: message}
		}
	}
	return list, problem
}

// entriesIn returns the entries of one table, and its errors.
func (f File) entriesIn(d document, project string, disabled map[string]string) (list []entry, problem string) {
	parent, last := tableAt(d.root, f.table[:len(f.table)-1]), f.table[len(f.table)-1]
	members, ok := parent[last].(map[string]any)
	switch {
	case !ok && parent[last] != nil:
		return nil, strings.Join(f.table, ".") + " is not a table of servers"
	case len(members) > maxServers:
		return nil, fmt.Sprintf("has %d servers; the limit is %d", len(members), maxServers)
	case !ok:
		return nil, ""
	}
	inputs := inputsOf(parent)
	for _, name := range d.names(f.table) {
		if fields, ok := members[name].(map[string]any); ok {
			list = append(list, entry{Origin{File: f, Project: project, Name: name}, fields, disabled[name], inputs})
		} else {
			problem = fmt.Sprintf("has a server %.80q that is not a table", name)
		}
	}
	return list, problem
}

// projectDir returns the project of a project file: those of Claude Code and opencode are in it,
// that of Junie is two directories below, the files of other clients are in a directory of the project.
func projectDir(path string) string {
	dir := filepath.Dir(path)
	switch filepath.Base(path) {
	case ".mcp.json", "opencode.json", "opencode.jsonc":
		return dir
	}
	if filepath.Base(filepath.Dir(dir)) == ".junie" {
		dir = filepath.Dir(dir)
	}
	return filepath.Dir(dir)
}

// inputsOf reads VS Code's list "inputs" from the parent of the servers.
func inputsOf(parent map[string]any) map[string]input {
	found := map[string]input{}
	list, _ := parent["inputs"].([]any)
	for _, v := range list {
		fields, _ := v.(map[string]any)
		id, _ := fields["id"].(string)
		description, _ := fields["description"].(string)
		found[id] = input{id, description}
	}
	return found
}

// disabledServers returns the servers of f's own table that the client lists as
// disabled outside their entries, with the reason.
func disabledServers(f File, env Env, d document) map[string]string {
	switch {
	case f.Client.ID == "claude-code" && f.Project:
		own, err := File{Client: f.Client, Path: filepath.Join(rootOf(env, "CLAUDE"), ".claude.json")}.document()
		if err != nil {
			return nil
		}
		settings := tableAt(own.root, []string{"projects", env.Dir})
		names := append(texts(settings["disabledMcpjsonServers"]), texts(settings["disabledMcpServers"])...)
		return withReason(names, "it is disabled in this project")
	case f.Client.ID == "gemini":
		settings := tableAt(d.root, []string{"mcp"})
		disabled := withReason(texts(settings["excluded"]), "it is excluded there")
		if allowed, ok := settings["allowed"]; ok {
			for name := range tableAt(d.root, f.table) {
				if !slices.Contains(texts(allowed), name) {
					disabled[name] = "it is not allowed there"
				}
			}
		}
		state, _ := File{Path: filepath.Join(env.Home, ".gemini", "mcp-server-enablement.json")}.document()
		for name := range state.root {
			if tableAt(state.root, []string{name})["enabled"] == false {
				disabled[name] = "it is disabled there"
			}
		}
		return disabled
	}
	return nil
}

// withReason maps each name to the reason.
func withReason(names []string, reason string) map[string]string {
	reasons := map[string]string{}
	for _, name := range names {
		reasons[name] = reason
	}
	return reasons
}

// server converts the entry to a Server, or returns why it is not imported.
func (e entry) server(env Env, project bool) (s Server, reason string) {
	s = Server{Name: e.from.Name, From: []Origin{e.from}}
	r := reader{entry: e, env: env, server: &s}
	r.target()
	switch {
	case s.Name == "" || len(s.Name) > 100 || strings.ContainsFunc(s.Name, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return s, "its name is empty, longer than 100 bytes or has control characters"
	case e.disabled != "":
		return s, e.disabled
	case e.fields["disabled"] == true || e.fields["enabled"] == false:
		return s, "it is disabled there"
	case isSandpiper(env, s):
		return s, ReasonSandpiper
	case isReplaced(s):
		return s, reasonReplaced
	case e.from.File.Project && !project:
		return s, "it is in a project file; --here imports it"
	case !e.from.File.Project && e.from.Project != "" && !exists(e.from.Project):
		return s, "its project directory does not exist"
	}
	if r.read(); r.reason != "" {
		return s, r.reason
	}
	switch {
	case s.Command == "" && s.URL == "":
		return s, "it has neither command nor url"
	case s.Command != "" && s.URL != "":
		return s, "it has both command and url"
	case s.URL != "" && !strings.HasPrefix(s.URL, "http://") && !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "${"):
		return s, "its url is not http or https"
	}
	return s, ""
}

// LacksApproval reports whether an entry of Codex has no approval mode.
func LacksApproval(o Origin) bool {
	d, err := o.File.document()
	fields := tableAt(d.root, append(slices.Clone(o.File.table), o.Name))
	return err == nil && o.File.Client.ID == "codex" && fields != nil && fields["default_tools_approval_mode"] == nil
}
