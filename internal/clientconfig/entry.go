package clientconfig

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// entry is what a file says of one server.
type entry struct {
	from   Origin
	fields map[string]any
	off    string           // why the client does not use it, if a list beside it says so
	inputs map[string]input // that the file knows, by id
}

// input is a value that VS Code asks the person for.
type input struct {
	id, description string
}

// entries returns what stands in the file. A problem with one table leaves the
// others.
func (f File) entries(env Env) ([]entry, *Problem) {
	text, err := f.read()
	if err == nil && text != nil {
		var d document
		if d, err = f.parse(text); err == nil {
			return f.all(env, d)
		}
	}
	if err != nil {
		p := &Problem{File: f, What: err.Error()}
		if m, ok := errors.AsType[*malformed](err); ok {
			p.Line, p.What = m.line, m.what
		}
		return nil, p
	}
	return nil, nil
}

func (f File) all(env Env, d document) ([]entry, *Problem) {
	off := disabled(f, env, d)
	list, problem := f.in(d, f.table, "", off)
	if f.Client.ID != "claude-code" || f.Project {
		return list, problem
	}
	for _, dir := range d.names([]string{"projects"}) {
		table := []string{"projects", dir, "mcpServers"}
		off := turnedOff(texts(tableIn(d.root, table[:2])["disabledMcpServers"]), "it is switched off in that project")
		more, wrong := f.in(d, table, dir, off)
		list = append(list, more...)
		if problem == nil {
			problem = wrong
		}
	}
	return list, problem
}

// in returns the entries of one table.
func (f File) in(d document, table []string, project string, off map[string]string) ([]entry, *Problem) {
	parent := tableIn(d.root, table[:len(table)-1])
	last := table[len(table)-1]
	if held, there := parent[last]; there && held != nil {
		if _, ok := held.(map[string]any); !ok {
			return nil, &Problem{File: f, What: "holds no servers by name in " + strings.Join(f.table, ".")}
		}
	}
	members := tableIn(d.root, table)
	if len(members) > maxServers {
		return nil, &Problem{File: f, What: fmt.Sprintf("holds %d servers, and %d are the most", len(members), maxServers)}
	}
	inputs := inputsOf(parent)
	f.table = table // whoever edits the entry finds it there
	var list []entry
	var problem *Problem
	for _, name := range d.names(table) {
		from := Origin{File: f, Project: project, Name: name}
		if f.Project {
			from.Project = filepath.Dir(f.Path)
			if f.Path != filepath.Join(from.Project, ".mcp.json") {
				from.Project = filepath.Dir(from.Project)
			}
		}
		fields, ok := members[name].(map[string]any)
		if !ok {
			problem = &Problem{File: f, What: fmt.Sprintf("says of server %.80q what is no table", name)}
			continue
		}
		list = append(list, entry{from, fields, off[name], inputs})
	}
	return list, problem
}

// inputsOf reads the list inputs that stands beside VS Code's servers.
func inputsOf(parent map[string]any) map[string]input {
	found := map[string]input{}
	list, _ := parent["inputs"].([]any)
	for _, v := range list {
		fields, _ := v.(map[string]any)
		id, _ := fields["id"].(string)
		about, _ := fields["description"].(string)
		found[id] = input{id, about}
	}
	return found
}

// disabled are the servers of f's own table that the client does not use, with
// the reason. Clients keep such lists away from the entries.
func disabled(f File, env Env, d document) map[string]string {
	switch {
	case f.Client.ID == "claude-code" && f.Project:
		mine := File{Client: f.Client, Path: claudeFile(env)}
		own, err := mine.document()
		if err != nil {
			return nil
		}
		here := tableIn(own.root, []string{"projects", env.Dir})
		return turnedOff(append(texts(here["disabledMcpjsonServers"]), texts(here["disabledMcpServers"])...), "it is switched off in this project")
	case f.Client.ID == "gemini":
		off := turnedOff(texts(tableIn(d.root, []string{"mcp"})["excluded"]), "it is excluded there")
		if allowed, there := tableIn(d.root, []string{"mcp"})["allowed"]; there {
			for name := range tableIn(d.root, f.table) {
				if !slices.Contains(texts(allowed), name) {
					off[name] = "it is not allowed there"
				}
			}
		}
		state, _ := File{Path: filepath.Join(env.Home, ".gemini", "mcp-server-enablement.json")}.document()
		for name := range state.root {
			if tableIn(state.root, []string{name})["enabled"] == false {
				off[name] = "it is switched off there"
			}
		}
		return off
	}
	return nil
}

// document reads and parses; an absent file is an empty one.
func (f File) document() (document, error) {
	text, err := f.read()
	if err != nil {
		return document{}, err
	}
	return f.parse(text)
}

func turnedOff(names []string, why string) map[string]string {
	off := map[string]string{}
	for _, name := range names {
		off[name] = why
	}
	return off
}

// server makes a Server of the entry, or says why it is not taken.
func (e entry) server(env Env, project bool) (s Server, why string) {
	s = Server{Name: e.from.Name, From: []Origin{e.from}}
	r := reader{entry: e, env: env, server: &s}
	r.where()
	switch {
	case e.from.Name == "" || len(e.from.Name) > 100 || strings.ContainsFunc(e.from.Name, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return s, "its name is none that a server can have"
	case e.off != "":
		return s, e.off
	case e.fields["disabled"] == true || e.fields["enabled"] == false:
		return s, "it is switched off there"
	case itself(env, s):
		return s, Ourselves
	case e.from.File.Project && !project:
		return s, "it stands in a project's file; --here takes those"
	case !e.from.File.Project && e.from.Project != "" && !exists(e.from.Project):
		return s, "its project is gone"
	}
	if r.read(); r.why != "" {
		return s, r.why
	}
	switch {
	case s.Command == "" && s.URL == "":
		return s, "it has neither command nor url"
	case s.Command != "" && s.URL != "":
		return s, "it has both command and url"
	case s.URL != "" && !strings.HasPrefix(s.URL, "http://") && !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "${"):
		return s, "its url is none of http"
	}
	return s, ""
}
