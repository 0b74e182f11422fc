package catalog

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// entries are the servers and tools of a snapshot, and their lookups by name.
type entries struct {
	Servers []Server // by name
	Tools   []Tool   // by server, then by name

	byRef    map[tool.Ref]int
	servers  map[string]int
	modules  map[string]string         // server -> its Python name
	function func(server string) names // computed once for each server
}

// Server is a server of the configuration or of a static catalog.
type Server struct {
	Name         string
	Module       string // its Python name
	Category     string
	Title        string
	Version      string
	Instructions string
	Resources    bool
	Prompts      bool
	Legacy       bool      // see Listing
	Connected    bool      // it is in the configuration, so its tools can be called
	Trusted      bool      // its annotations are trusted
	Listed       time.Time // time of its last listing; zero if never
	Tools        int
	Quarantined  int      // of them
	Notes        []string // see Listing

	// Unreviewed means that an operator must accept the server before its resources and prompts
	// can be used. NewTexts are those that must be accepted; nil if there are none.
	Unreviewed bool
	NewTexts   *Texts
}

// Texts are the texts of a server for models, except its tools.
type Texts = texts

// Tool is a tool with its state in the catalog.
type Tool struct {
	tool.Definition
	Category     string
	Functions    []string // of a static catalog
	UseCases     []string
	Connected    bool             // it can be called
	Quarantined  *tool.Definition // the new definition, which is not trusted; nil if the tool is not quarantined
	New          bool             // the tool was not reviewed: Definition has its name only
	TrustedHints tool.Hints       // those of the definition that count
	Trusted      bool             // the server is, so that they all do
}

// Callable reports whether the tool can be called: its server is connected, and its definition is
// trusted.
func (t Tool) Callable() bool { return t.Connected && t.Quarantined == nil && !t.New }

// Reason returns why a quarantined tool cannot be called.
func (t Tool) Reason() string {
	if t.New {
		return "nobody has reviewed it yet"
	}
	return "its definition has changed since it was trusted"
}

// names maps the tools of one server to their Python names and back.
type names struct{ python, wire map[string]string }

// add adds a configured server.
func (s *entries) add(c Configured, l *listing) {
	v := Server{Name: c.Name, Category: c.Category, Connected: true, Trusted: c.Trusted}
	if l == nil {
		l = &listing{}
	}
	v.Title, v.Version, v.Instructions, v.Listed = l.Title, l.Version, l.Instructions, l.Listed
	v.Resources, v.Prompts, v.Legacy, v.Tools = l.Resources, l.Prompts, l.Legacy, len(l.Tools)
	v.Notes = l.Notes
	v.NewTexts, v.Unreviewed = l.NewTexts, c.Review && !l.Accepted
	if v.Unreviewed {
		v.Resources, v.Prompts = false, false
	}
	if v.Category == "" {
		v.Category = l.inferCategory(c.Name)
	}
	for _, k := range l.Tools {
		if k.Quarantined != nil {
			v.Quarantined++
		}
		k.Trusted.Server = c.Name // the name in the configuration may have changed
		s.Tools = append(s.Tools, Tool{
			Definition: k.Trusted, Category: v.Category, Connected: true, Quarantined: k.Quarantined, New: k.New,
			TrustedHints: k.Trusted.Hints.Trusted(c.Trusted), Trusted: c.Trusted,
		})
	}
	s.Servers = append(s.Servers, v)
}

func (s *entries) addStaticTool(category, name string, t StaticTool) {
	server := t.Server
	if server == "" {
		server = category
	}
	i := slices.IndexFunc(s.Servers, func(v Server) bool { return v.Name == server })
	if i >= 0 && s.Servers[i].Connected {
		for j, known := range s.Tools {
			if known.Ref == (tool.Ref{Server: server, Tool: name}) {
				s.Tools[j].Functions, s.Tools[j].UseCases = t.Functions, t.UseCases
				return
			}
		}
		return // the connected server does not have the tool
	}
	if i < 0 {
		s.Servers = append(s.Servers, Server{Name: server, Category: category})
		i = len(s.Servers) - 1
	}
	s.Servers[i].Tools++
	d := tool.Definition{Ref: tool.Ref{Server: server, Tool: name}, Description: t.Description, Input: t.Input, Output: t.Output}
	if d.Input == nil {
		d.Input = json.RawMessage("true")
	}
	s.Tools = append(s.Tools, Tool{Definition: d, Category: category, Functions: t.Functions, UseCases: t.UseCases})
}

// buildLookups builds the lookups by name.
func (s *entries) buildLookups() {
	var all []string
	for i, v := range s.Servers {
		s.servers[v.Name] = i
		all = append(all, v.Name)
	}
	s.modules = tool.ModuleNames(all)
	for i := range s.Servers {
		s.Servers[i].Module = s.modules[s.Servers[i].Name]
	}
	for i, t := range s.Tools {
		s.byRef[t.Ref] = i
	}
	s.function = s.functions()
}

// functions returns a function that computes the names of the tools of each server once.
func (s *entries) functions() func(server string) names {
	var mu sync.Mutex
	known := map[string]names{}
	return func(server string) names {
		mu.Lock()
		defer mu.Unlock()
		n, ok := known[server]
		if !ok {
			n = s.name(server)
			known[server] = n
		}
		return n
	}
}

func (s *entries) name(server string) names {
	var all []string
	for _, t := range s.Of(server) {
		all = append(all, t.Definition.Tool)
	}
	n := names{tool.ModuleNames(all), map[string]string{}}
	for wire, python := range n.python {
		n.wire[python] = wire
	}
	return n
}

// Server finds a server by its name or its Python name.
func (s *entries) Server(name string) (Server, bool) {
	if i, ok := s.servers[name]; ok {
		return s.Servers[i], true
	}
	for server, module := range s.modules {
		if module == name {
			return s.Servers[s.servers[server]], true
		}
	}
	return Server{}, false
}

// Find finds one tool.
func (s *entries) Find(ref tool.Ref) (Tool, bool) {
	i, ok := s.byRef[ref]
	if !ok {
		return Tool{}, false
	}
	return s.Tools[i], true
}

// Resolve maps the Python names of a server and a tool to their own names. An own name
// has priority over a Python name.
func (s *entries) Resolve(ref tool.Ref) tool.Ref {
	v, ok := s.Server(ref.Server)
	if !ok {
		return ref
	}
	ref.Server = v.Name
	if _, exact := s.byRef[ref]; !exact {
		if wire, ok := s.function(v.Name).wire[ref.Tool]; ok {
			ref.Tool = wire
		}
	}
	return ref
}

// Of returns the tools of a server, by name.
func (s *entries) Of(server string) []Tool {
	i, _ := slices.BinarySearchFunc(s.Tools, server, func(t Tool, name string) int { return strings.Compare(t.Server, name) })
	j := i
	for j < len(s.Tools) && s.Tools[j].Server == server {
		j++
	}
	return s.Tools[i:j]
}

// Function finds a tool by the Python names of its server and itself.
func (s *entries) Function(module, function string) (Tool, bool) {
	v, ok := s.Server(module)
	if !ok {
		return Tool{}, false
	}
	return s.Find(tool.Ref{Server: v.Name, Tool: s.function(v.Name).wire[function]})
}

// Python returns the names of a tool's module and function.
func (s *entries) Python(ref tool.Ref) (module, function string) {
	return s.modules[ref.Server], s.function(ref.Server).python[ref.Tool]
}

// Named finds tools by a name that a model wrote: the name of the tool, "server.tool",
// or the import path. Several servers may have such a tool.
func (s *entries) Named(name, category string) (found []Tool) {
	for _, v := range s.Servers {
		if category != "" && !strings.EqualFold(v.Category, category) {
			continue
		}
		refs := []string{name, s.function(v.Name).wire[name]}
		if of, ok := cutServer(name, v); ok {
			refs = append(refs, of, s.function(v.Name).wire[of])
		}
		for _, r := range slices.Compact(refs) {
			if t, ok := s.Find(tool.Ref{Server: v.Name, Tool: r}); ok {
				found = append(found, t)
				break
			}
		}
	}
	return found
}

// cutServer removes the server from "github.list_issues" or
// "servers.github.list_issues". The name of a server may contain dots.
func cutServer(name string, v Server) (of string, ok bool) {
	name = strings.TrimPrefix(name, "servers.")
	if of, ok = strings.CutPrefix(name, v.Name+"."); ok {
		return of, true
	}
	return strings.CutPrefix(name, v.Module+".")
}

// NearestServers returns the Python names of servers that are similar to name.
func (s *entries) NearestServers(name string, most int) []string {
	return fault.Nearest(name, slices.Sorted(maps.Values(s.modules)), most)
}

// NearestFunctions returns the functions of a server that are similar to name.
func (s *entries) NearestFunctions(server, name string, most int) []string {
	return fault.Nearest(name, slices.Sorted(maps.Keys(s.function(server).wire)), most)
}

// Doc returns the search document of a tool without its parameters.
func (s *entries) Doc(t Tool) search.Doc {
	v := s.Servers[s.servers[t.Server]]
	return search.Doc{
		Name: t.Definition.Tool, Server: t.Server, Category: t.Category, Description: t.Description,
		ServerDescription: v.Title + " " + v.Instructions, Functions: t.Functions, UseCases: t.UseCases,
	}
}

// Disabled are the servers that the operator has disabled, by name.
type Disabled []string

// Server returns the name of a disabled server, "" if none has this name or Python name.
func (all Disabled) Server(name string) string {
	for _, d := range all {
		if d == name || tool.ModuleNames([]string{d})[d] == name {
			return d
		}
	}
	return ""
}

// Check returns the error of a use of a disabled server, nil if none has this name or Python name.
func (all Disabled) Check(name string) error {
	disabled := all.Server(name)
	if disabled == "" {
		return nil
	}
	return fault.New(fault.NotFound, "server %s is disabled by the operator", disabled).
		WithHint("the operator can enable it with `sandpiper servers enable %s`", disabled)
}

// NotConfigured returns the error of a use of a server that is not in the configuration, or is disabled there.
func (all Disabled) NotConfigured(name string) error {
	if err := all.Check(name); err != nil {
		return err
	}
	return fault.New(fault.NotFound, "there is no server %q in the configuration", name).
		WithHint("`sandpiper servers list` lists the servers")
}
