// Package codegen turns the definitions of tools into Python that code in a
// sandbox imports: a package `servers`, in it a package for each server, in that
// a module for each tool with one typed function.
//
//	servers/__init__.py                  what servers there are
//	servers/github/__init__.py           what the server is, and its tools in one line each
//	servers/github/list_issues.py        the function list_issues and the types it names
//	servers/github/aio.py                the same functions, to be awaited
//	servers/github/resources.py          list, read, templates; if the server has resources
//	servers/github/prompts.py            list, get; if the server has prompts
//
// Code that imports one tool reads the first three. All of them call a module
// `_sandpiper`, which whoever runs the code provides; see python/README.
//
// Words. A name on the wire is the server's own; a Python name is what
// tool.ModuleNames and tool.ParamNames make of it. An expression is a type as the
// module says it; its brief form, in which an object is {"key": type, "key?": type},
// needs no other definition and is what a signature says.
//
// What servers say is data and hostile. Each text enters a module through one
// function that writes a literal of ASCII characters, descriptions after they
// were cleaned and cut. A schema that is recursive, exotic, contradictory or too
// large for its part gives a wider type; no definition gives an error or Python
// that does not compile. The same definitions give the same bytes, in whatever
// order they come.
//
// All functions are pure, and a Dir is safe for concurrent use. The package does
// not check arguments against schemas, knows no connections, and runs no Python.
package codegen

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Server is one server and its tools.
type Server struct {
	Name        string // on the wire and in the configuration; "" for one that is only Files
	Module      string // its Python name; "" is what tool.ModuleNames makes of Name and the servers it is generated with
	Title       string // for people; may be empty
	Description string
	Tools       []tool.Definition // of two with the same name one counts
	Resources   bool              // has resources that can be listed and read
	Prompts     bool
	Files       []File // modules that somebody wrote by hand, as ReadByHand returns them; a generated one of the same name hides one
}

// File is one file of the package.
type File struct {
	Path string // below servers/, with slashes
	Data []byte
}

// Generate returns the files of one server, ordered by path.
func Generate(s Server) []File { return generate(named([]Server{s})[0], nil) }

// generate leaves out the content of modules that are as they were for before;
// nil knows nothing.
func generate(s Server, before *Server) []File {
	if s.isByHand() {
		return byHand(s)
	}
	defs := distinct(s.Tools)
	names := toolNames(defs)
	files := []File{
		{s.Module + "/__init__.py", serverModule(s, defs, names)},
		{s.Module + "/aio.py", aioModule(s)},
	}
	if s.Resources {
		files = append(files, File{s.Module + "/resources.py", partModule(s, "resources", resourcesSource)})
	}
	if s.Prompts {
		files = append(files, File{s.Module + "/prompts.py", partModule(s, "prompts", promptsSource)})
	}
	had := before.modules(s.Name)
	for _, d := range defs {
		f := File{Path: s.Module + "/" + names[d.Tool] + ".py"}
		if old, ok := had[names[d.Tool]]; !ok || !equal(old, d) {
			f.Data = newFunction(d, names[d.Tool]).module(s.Name)
		}
		files = append(files, f)
	}
	files = append(files, s.beside()...)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files
}

// modules are the server's definitions by the names of their modules; none if
// the server was called otherwise, which each module says.
func (s *Server) modules(name string) map[string]tool.Definition {
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

// equal says whether the same is made of both, if they are called the same. It
// takes no time for texts that are in one place in memory.
func equal(a, b tool.Definition) bool {
	return a.Tool == b.Tool && a.Title == b.Title && a.Description == b.Description &&
		bytes.Equal(a.Input, b.Input) && bytes.Equal(a.Output, b.Output)
}

func (s Server) equal(o Server) bool {
	return s.Name == o.Name && s.Module == o.Module && s.Title == o.Title && s.Description == o.Description &&
		s.Resources == o.Resources && s.Prompts == o.Prompts && slices.EqualFunc(s.Tools, o.Tools, equal) &&
		slices.EqualFunc(s.Files, o.Files, func(a, b File) bool { return a.Path == b.Path && bytes.Equal(a.Data, b.Data) })
}

// Root returns the files that belong to no one server.
func Root(servers []Server) []File {
	return []File{{"__init__.py", rootModule(named(servers))}}
}

// Text is the output schema of a tool that declares none and answers with text: once
// it has, all its answers are text.
var Text = json.RawMessage(`{"inferred":true,"text":true,"type":"string"}`)

// Usage tells how code uses one tool.
type Usage struct {
	Import    string // from servers.github import list_issues
	Signature string // list_issues(owner: str, state: Literal["open", "closed"] = "open") -> Any
	Example   string // list_issues(owner="octocat")
}

// Describe returns how code uses d, whose server and itself have the given
// Python names: those of tool.ModuleNames, over all servers and over the
// server's tools.
func Describe(d tool.Definition, server, name string) Usage {
	f := newFunction(d, name)
	return Usage{
		Import:    "from servers." + server + " import " + name,
		Signature: f.signature(),
		Example:   f.example(),
	}
}

// named gives each server its Python name, and orders them by that.
func named(servers []Server) []Server {
	servers = slices.Clone(servers)
	names := make([]string, len(servers))
	for i, s := range servers {
		names[i] = cmp.Or(s.Module, s.Name)
	}
	// A Module that came from ModuleNames keeps itself; another cannot leave the tree.
	ids := tool.ModuleNames(names)
	for i := range servers {
		servers[i].Module = ids[names[i]]
	}
	slices.SortFunc(servers, func(a, b Server) int { return cmp.Compare(a.Module, b.Module) })
	return slices.CompactFunc(servers, func(a, b Server) bool { return a.Module == b.Module })
}

// distinct orders definitions by name and leaves one of each.
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

// document reads a schema; what is no JSON or missing says nothing.
func document(raw json.RawMessage) any {
	v, err := parse(raw)
	if err != nil {
		return true
	}
	return v
}
