// Package preflight holds code that has not run yet against the catalog: does it
// name servers and tools that there are, with arguments that they take?
//
// The worker reads the code and says what it uses (see python/preflight.py);
// what it says is hostile, and a wrong answer harms only its own code. Only what
// is sure is said: a value that is not written out in the code is not judged.
// The package runs nothing and may be used by many at once.
package preflight

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// Uses are what code says of tools, without doubt.
type Uses struct {
	Imports []Import `json:"imports"`
	Calls   []Call   `json:"calls"`
}

// Servers are the Python names of the servers that are used.
func (u Uses) Servers() (names []string) {
	for _, i := range u.Imports {
		names = append(names, i.Server)
	}
	for _, c := range u.Calls {
		names = append(names, c.Server)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Without returns the uses that are not of modules written by hand, about which
// nothing is known: hand lists them by package, and under "" whether all of it is.
func (u Uses) WithoutHandWritten(hand map[string]map[string]bool) Uses {
	known := func(server, function string) bool {
		return hand[server][""] || hand[server][function] && function != ""
	}
	u.Imports = slices.DeleteFunc(slices.Clone(u.Imports), func(i Import) bool { return known(i.Server, i.Function) })
	u.Calls = slices.DeleteFunc(slices.Clone(u.Calls), func(c Call) bool { return !c.ByName && known(c.Server, c.Function) })
	return u
}

// Import names a server's module, or a function of it.
type Import struct {
	Server   string `json:"server"`   // its Python name
	Function string `json:"function"` // "" for the module, "*" for all that are in it
	Line     int    `json:"line"`
	Optional bool   `json:"ready"` // the code is ready for it not to be there
}

// Call is a call of a tool.
type Call struct {
	Server   string             `json:"server"`
	Function string             `json:"function"`
	ByName   bool               `json:"by_name"` // by call_tool: the names are the server's own
	Line     int                `json:"line"`
	Optional bool               `json:"ready"` // the code is ready for the tool not to be there
	Unpacks  bool               `json:"open"`  // it has arguments that cannot be seen: *args, **kwargs
	Args     []Literal          `json:"args"`
	Keywords map[string]Literal `json:"keywords"`
}

// Literal is an argument; Value is nil unless the code has it written out.
type Literal struct {
	Value json.RawMessage `json:"value"`
}

// most findings are told at once.
const most = 20

// Check returns what cannot work, one line each, in the order of the code. why
// says of servers that have not told their tools what is the matter.
func Check(now *catalog.Snapshot, why map[string]error, schemas func(tool.Definition) *schema.Schema, uses Uses) []string {
	c := &check{now: now, why: why, schemas: schemas, seen: map[string]bool{}}
	for _, i := range uses.Imports {
		c.use(i)
	}
	for _, call := range uses.Calls {
		c.call(call)
	}
	slices.SortStableFunc(c.found, func(a, b finding) int { return a.line - b.line })
	var lines []string
	for i, f := range c.found {
		if i == most {
			lines = append(lines, fmt.Sprintf("… and %d more", len(c.found)-most))
			break
		}
		lines = append(lines, fmt.Sprintf("line %d: %s", f.line, f.text))
	}
	return lines
}

type finding struct {
	line int
	text string
}

type check struct {
	now     *catalog.Snapshot
	why     map[string]error
	schemas func(tool.Definition) *schema.Schema
	found   []finding
	seen    map[string]bool // names that were found missing: once is enough
}

func (c *check) add(line int, format string, args ...any) {
	c.found = append(c.found, finding{line, fmt.Sprintf(format, args...)})
}

// missing adds a finding about a name, the first time that it is used.
func (c *check) missing(line int, name, format string, args ...any) {
	if !c.seen[name] {
		c.seen[name] = true
		c.add(line, format, args...)
	}
}

// there reports whether a tool, or a server if no function is named, can be used.
func (c *check) there(server, function string, byName bool) bool {
	probe := check{now: c.now, why: c.why, seen: map[string]bool{}}
	switch v, ok := probe.server(server, 0); {
	case ok && !v.Connected:
		return false
	case ok && function != "":
		probe.tool(v, function, byName, 0)
	}
	return len(probe.found) == 0
}

func (c *check) use(i Import) {
	if i.Optional && !c.there(i.Server, i.Function, false) {
		return
	}
	v, ok := c.server(i.Server, i.Line)
	switch {
	case !ok:
	case !v.Connected:
		c.unconnected(v, i.Line)
	case i.Function == "":
	case i.Function != "*":
		c.tool(v, i.Function, false, i.Line)
	case silent(v):
		c.silent(v, i.Line)
	}
}

// silent reports whether a server has not told its tools.
func silent(v catalog.Server) bool { return v.Listed.IsZero() && v.Tools == 0 }

func (c *check) silent(v catalog.Server, line int) {
	c.missing(line, v.Module, "server %s has not told its tools: %s", v.Name, c.reason(v.Name))
}

func (c *check) unconnected(v catalog.Server, line int) {
	c.missing(line, v.Module, "server %s is known from a catalog only and not connected: the operator can add it to servers: in the configuration", v.Name)
}

func (c *check) server(name string, line int) (catalog.Server, bool) {
	v, ok := c.now.Server(name)
	if !ok {
		c.missing(line, name, "there is no server %.80q%s", name, c.servers(name))
	}
	return v, ok
}

func (c *check) servers(name string) string {
	if near := c.now.NearestServers(name, 3); len(near) > 0 {
		return meant(near)
	}
	var all []string
	for _, v := range c.now.Servers {
		if v.Connected {
			all = append(all, v.Module)
		}
	}
	if len(all) == 0 {
		return ": none is connected; the operator can add servers to servers: in the configuration"
	}
	return "; there are " + strings.Join(all[:min(12, len(all))], ", ")
}

func (c *check) tool(v catalog.Server, name string, byName bool, line int) (catalog.Tool, bool) {
	t, ok := c.now.Function(v.Module, name)
	if byName {
		t, ok = c.now.Find(c.now.Resolve(tool.Ref{Server: v.Name, Tool: name}))
	}
	full := v.Module + "." + name
	switch {
	case !ok && silent(v):
		c.silent(v, line)
	case !ok:
		c.missing(line, full, "server %s has no tool %.80q%s", v.Name, name, c.tools(v, name))
	case !t.Connected:
		c.unconnected(v, line)
	case t.Quarantined != nil:
		c.missing(line, full, "%s.%s has changed its definition and waits for the operator: `sandpiper tools accept %[1]s %[2]s`", v.Name, t.Definition.Tool)
	default:
		return t, true
	}
	return t, false
}

func (c *check) reason(server string) string {
	err := c.why[server]
	if err == nil {
		return "it has not been asked yet"
	}
	if hint := fault.Hint(err); hint != "" {
		return fault.Message(err) + "; " + hint
	}
	return fault.Message(err)
}

func (c *check) tools(v catalog.Server, name string) string {
	if near := c.now.NearestFunctions(v.Name, name, 3); len(near) > 0 {
		return meant(near)
	}
	return fmt.Sprintf("; dir(servers.%s) lists them, search_tools finds others", v.Module)
}

func meant(near []string) string { return "; did you mean " + strings.Join(near, " or ") + "?" }

// call holds one call against the tool's schema.
func (c *check) call(call Call) {
	if call.Optional && !c.there(call.Server, call.Function, call.ByName) {
		return
	}
	v, ok := c.server(call.Server, call.Line)
	if !ok {
		return
	}
	t, ok := c.tool(v, call.Function, call.ByName, call.Line)
	if !ok {
		return
	}
	about := v.Module + "." + call.Function
	params := schema.Params(t.Input)
	python := names(params)
	open := schema.Open(t.Input)
	given, known := map[string]Literal{}, !open || call.ByName
	for i, a := range call.Args {
		if open {
			break // which parameter it is for is not sure
		}
		if i >= len(params) {
			c.add(call.Line, "%s takes %d arguments, %d are given", about, len(params), len(call.Args))
			return
		}
		given[params[i].Name] = a
	}
	for name, a := range call.Keywords {
		wire := name
		if !call.ByName {
			if wire, ok = python[name]; !ok && !open {
				c.add(call.Line, "%s has no argument %.80q%s", about, name, c.arguments(name, params, python))
				known = false
				continue
			}
			if !ok {
				wire = name
			}
		}
		given[wire] = a
	}
	c.values(call, about, t, params, given, known)
}

func (c *check) arguments(name string, params []schema.Param, python map[string]string) string {
	var all []string
	for p := range python {
		all = append(all, p)
	}
	slices.Sort(all)
	if near := fault.Nearest(name, all, 1); near != nil {
		return meant(near)
	}
	if len(params) == 0 {
		return ": it takes none"
	}
	return "; there are " + strings.Join(all[:min(20, len(all))], ", ")
}

// values checks the arguments that are written out, and that none is missing.
func (c *check) values(call Call, about string, t catalog.Tool, params []schema.Param, given map[string]Literal, known bool) {
	args := map[string]any{}
	unseen := map[string]bool{}
	for _, p := range params {
		a, ok := given[p.Name]
		switch {
		case ok && string(a.Value) == "null" && !p.Required && !call.ByName:
			// as if it were not given
		case ok && a.Value != nil:
			args[p.Name] = decoded(a.Value)
		case ok || call.Unpacks || !known:
			unseen[p.Name] = true
		}
	}
	for _, problem := range c.schemas(t.Definition).Check(args) {
		top := strings.FieldsFunc(problem.Argument, func(r rune) bool { return r == '.' || r == '[' })
		if len(top) > 0 && unseen[top[0]] || problem.Argument == "" && len(unseen) > 0 {
			continue
		}
		c.add(call.Line, "%s: %s", about, spoken(problem, params))
	}
}

// spoken is a problem with the argument's Python name.
func spoken(p schema.Problem, params []schema.Param) string {
	for name, wire := range names(params) {
		if p.Argument == wire && name != wire {
			p.Argument = fmt.Sprintf("%s (%s)", name, wire)
		}
	}
	return p.String()
}

// names maps the Python names of parameters to their own.
func names(params []schema.Param) map[string]string {
	var all []string
	for _, p := range params {
		all = append(all, p.Name)
	}
	python := map[string]string{}
	for wire, name := range tool.ParamNames(all) {
		python[name] = wire
	}
	return python
}

func decoded(raw json.RawMessage) any {
	args, err := schema.Decode(json.RawMessage(`{"v":` + string(raw) + `}`))
	if err != nil {
		return nil
	}
	return args["v"]
}
