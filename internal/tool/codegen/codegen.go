// Package codegen generates Python modules from tool definitions. Code in a
// sandbox imports them: the package `servers` has a package for each server, and
// that has a module with one typed function for each tool.
//
//	servers/__init__.py                  list of servers
//	servers/github/__init__.py           description of the server, one line for each tool
//	servers/github/list_issues.py        the function list_issues and its types
//	servers/github/aio.py                the same functions as coroutines
//	servers/github/resources.py          list, read, templates; if the server has resources
//	servers/github/prompts.py            list, get; if the server has prompts
//	servers/github/.tools                index: a record of each function; unless the server has handwritten modules
//
// CPython reads the first three to import one tool. The runtime of the sandbox makes the function
// from its record instead, and reads its module when something else of it is needed. Both give
// the same. The modules call a module `_sandpiper`, which that runtime provides; see python/README.
//
// Terms: a wire name is the name that the server uses. A Python name is derived
// from it by tool.ModuleNames or tool.ParamNames. A type expression is Python
// source for a type. Its brief form writes an object as {"key": type, "key?": type},
// so that it refers to no class; signatures use it.
//
// Definitions come from servers and are untrusted. Apart from Python names, their text
// enters a module only in ASCII string literals and docstrings, written by the function
// escape; descriptions are cleaned and truncated first. A schema that is recursive, unsupported, contradictory or too
// large yields a wider type; no definition causes an error or invalid Python. The
// output does not depend on the order of the definitions.
//
// All functions are pure, and a Dir is safe for concurrent use. The package does
// not validate arguments, open connections or run Python.
package codegen

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen/python"
)

// Server is one server and its tools.
type Server struct {
	Name        string // wire name, as in the configuration; "" if the server has only handwritten Files
	Module      string // Python name; "" derives it from Name with tool.ModuleNames, over all servers generated together
	Title       string // display name; may be empty
	Description string
	Tools       []tool.Definition // duplicates of a name are ignored
	Resources   bool              // has resources that can be listed and read
	Prompts     bool
	Files       []File // handwritten modules, as returned by ReadHandwritten; a generated module of the same name hides one
}

// File is one file of the package.
type File struct {
	Path string // relative to servers/, with slashes
	Data []byte
}

// Generate returns the files of one server, ordered by path.
func Generate(s Server) []File { return generate(withModuleNames([]Server{s})[0], nil, nil) }

// generate returns the files of one server, ordered by path. Files of tools that are
// unchanged since before have no Data; made are their records in the index of before. A nil
// before generates all of them.
func generate(s Server, before *Server, made map[string][]byte) []File {
	if s.isHandwritten() {
		return handwrittenFiles(s)
	}
	defs := distinct(s.Tools)
	names := toolNames(defs)
	files := []File{
		{s.Module + "/__init__.py", serverModule(s, defs, names)},
		{s.Module + "/aio.py", aioModule(s)},
	}
	if s.Resources {
		files = append(files, File{s.Module + "/resources.py", partModule(s, "resources", python.Resources)})
	}
	if s.Prompts {
		files = append(files, File{s.Module + "/prompts.py", partModule(s, "prompts", python.Prompts)})
	}
	had, all := before.definitions(s.Name), make(map[string][]byte, len(defs))
	for _, d := range defs {
		name := names[d.Tool]
		f := File{Path: s.Module + "/" + name + ".py"}
		if old, ok := had[name]; ok && equal(old, d) && made[name] != nil {
			all[name] = made[name]
		} else {
			function := newFunction(d, name)
			f.Data = function.module(s.Name)
			all[name] = function.record(f.Data)
		}
		files = append(files, f)
	}
	if s.hasIndex() {
		files = append(files, File{s.Module + "/" + indexName, index(s, defs, names, all)})
	}
	files = append(files, s.visibleFiles()...)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files
}

// definitions returns the server's definitions by module name. It returns none if
// the server has another wire name, because each module contains that name.
func (s *Server) definitions(name string) map[string]tool.Definition {
	if s == nil || s.Name != name {
		return nil
	}
	defs := distinct(s.Tools)
	names := toolNames(defs)
	m := make(map[string]tool.Definition, len(defs))
	for _, d := range defs {
		m[names[d.Tool]] = d
	}
	return m
}

// equal reports whether both definitions yield the same module. Comparing texts
// that share memory is cheap.
func equal(a, b tool.Definition) bool {
	return a.Tool == b.Tool && a.Title == b.Title && a.Description == b.Description &&
		bytes.Equal(a.Input, b.Input) && bytes.Equal(a.Output, b.Output)
}

func (s Server) equal(o Server) bool {
	return s.Name == o.Name && s.Module == o.Module && s.Title == o.Title && s.Description == o.Description &&
		s.Resources == o.Resources && s.Prompts == o.Prompts && slices.EqualFunc(s.Tools, o.Tools, equal) &&
		slices.EqualFunc(s.Files, o.Files, func(a, b File) bool { return a.Path == b.Path && bytes.Equal(a.Data, b.Data) })
}

// Root returns the files that do not belong to a single server.
func Root(servers []Server) []File {
	return []File{{"__init__.py", rootModule(withModuleNames(servers))}}
}

// Usage describes how code calls one tool.
type Usage struct {
	Import    string   // from servers.github import list_issues
	Signature string   // list_issues(owner: str, state: Literal["open", "closed"] = "open") -> Any
	Example   string   // list_issues(owner="octocat")
	Arguments []string // constraints that the signature lacks: "state: Only issues in it."
	Nested    bool     // keys of arguments have descriptions too, which Arguments omits
}

// Describe returns the usage of d. The arguments server and name are Python names,
// derived by tool.ModuleNames over all servers and over the server's tools.
func Describe(d tool.Definition, server, name string) Usage {
	f := newFunction(d, name)
	return Usage{
		Import:    "from servers." + server + " import " + name,
		Signature: f.signature(),
		Example:   f.example(),
		Arguments: f.args(),
		Nested:    f.nested,
	}
}

// withModuleNames sets the Python name of each server and sorts them by it.
func withModuleNames(servers []Server) []Server {
	servers = slices.Clone(servers)
	names := make([]string, len(servers))
	for i, s := range servers {
		names[i] = cmp.Or(s.Module, s.Name)
	}
	// ModuleNames keeps a name that it returned before and sanitizes any other, so that no module leaves the tree.
	ids := tool.ModuleNames(names)
	for i := range servers {
		servers[i].Module = ids[names[i]]
	}
	slices.SortFunc(servers, func(a, b Server) int { return cmp.Compare(a.Module, b.Module) })
	return slices.CompactFunc(servers, func(a, b Server) bool { return a.Module == b.Module })
}

// distinct sorts definitions by name and removes duplicates.
func distinct(defs []tool.Definition) []tool.Definition {
	defs = slices.Clone(defs)
	slices.SortFunc(defs, func(a, b tool.Definition) int {
		return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Description, b.Description), cmp.Compare(a.Title, b.Title),
			bytes.Compare(a.Input, b.Input), bytes.Compare(a.Output, b.Output))
	})
	return slices.CompactFunc(defs, func(a, b tool.Definition) bool { return a.Tool == b.Tool })
}

func toolNames(defs []tool.Definition) map[string]string {
	names := make([]string, len(defs))
	for i, d := range defs {
		names[i] = d.Tool
	}
	return tool.ModuleNames(names)
}

// parseSchema parses a schema. A missing or invalid one becomes true, which allows any value.
func parseSchema(raw json.RawMessage) any {
	v, err := parse(raw)
	if err != nil {
		return true
	}
	return v
}
