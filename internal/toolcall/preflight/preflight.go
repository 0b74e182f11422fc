// Package preflight checks code against the catalog before it runs: whether the
// servers and tools that it names exist and accept the arguments.
//
// The worker parses the code and reports what it uses (see python/preflight.py). That
// report is untrusted; a wrong one affects only its own code. Only certain errors are
// reported: arguments that are not literals are not checked. The package runs nothing
// and is safe for concurrent use.
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

// Uses are the imports and calls that the code certainly makes.
type Uses struct {
	Imports []Import `json:"imports"`
	Calls   []Call   `json:"calls"`
}

// Servers returns the Python names of the servers that the code uses.
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

// WithoutHandWritten returns the uses without those of hand-written modules, about
// which nothing is known: hand contains their functions by package, and the key "" if
// the whole package is hand-written.
func (u Uses) WithoutHandWritten(hand map[string]map[string]bool) Uses {
	known := func(server, function string) bool {
		return hand[server][""] || hand[server][function] && function != ""
	}
	u.Imports = slices.DeleteFunc(slices.Clone(u.Imports), func(i Import) bool { return known(i.Server, i.Function) })
	u.Calls = slices.DeleteFunc(slices.Clone(u.Calls), func(c Call) bool { return !c.ByName && known(c.Server, c.Function) })
	return u
}

// Import is an import of a server's module or of one of its functions.
type Import struct {
	Server   string `json:"server"`   // its Python name
	Function string `json:"function"` // "" for the module, "*" for all functions
	Line     int    `json:"line"`
	Optional bool   `json:"ready"` // the code handles that it is missing
}

// Call is a call of a tool.
type Call struct {
	Server   string             `json:"server"`
	Function string             `json:"function"`
	ByName   bool               `json:"by_name"` // called with call_tool: the names are the server's own
	Line     int                `json:"line"`
	Optional bool               `json:"ready"` // the code handles that the tool is missing
	Unpacks  bool               `json:"open"`  // has arguments that are not visible: *args, **kwargs
	Args     []Literal          `json:"args"`
	Keywords map[string]Literal `json:"keywords"`
}

// Literal is an argument; Value is nil unless it is a literal in the code.
type Literal struct {
	Value json.RawMessage `json:"value"`
}

// maxFindings limits the findings of one check.
const maxFindings = 20

// Check returns the errors in the uses, one line each, in the order of the code. errs
// contains the errors of servers that have not listed their tools.
func Check(now *catalog.Snapshot, why map[string]error, schemas func(tool.Definition) *schema.Schema, uses Uses) []string {
	var lines []string
	found := find(&check{now: now, errs: why, schemas: schemas, seen: map[string]bool{}}, uses)
	for i, f := range found {
		if i == maxFindings {
			lines = append(lines, fmt.Sprintf("… and %d more", len(found)-maxFindings))
			break
		}
		lines = append(lines, fmt.Sprintf("line %d: %s", f.Line, f.Text))
	}
	return lines
}

// Find returns the errors in the uses, like Check, at most some hundred. A missing name is reported at each use.
func Find(now *catalog.Snapshot, why map[string]error, schemas func(tool.Definition) *schema.Schema, uses Uses) []Finding {
	return find(&check{now: now, errs: why, schemas: schemas}, uses)
}

// Limits of one check. Each call is compared with the schema of its tool, and each wrong name with
// all others.
const (
	maxUses   = 500 // imports, and calls; the worker reports no more
	mostFound = 100
)

func find(c *check, uses Uses) []Finding {
	c.params = map[tool.Ref]params{}
	for _, i := range uses.Imports[:min(len(uses.Imports), maxUses)] {
		if len(c.found) < mostFound {
			c.checkImport(i)
		}
	}
	for _, call := range uses.Calls[:min(len(uses.Calls), maxUses)] {
		if len(c.found) < mostFound {
			c.checkCall(call)
		}
	}
	slices.SortStableFunc(c.found, func(a, b Finding) int { return a.Line - b.Line })
	return c.found
}

// Finding is an error in a use of a tool.
type Finding struct {
	Line     int    // of the code
	Argument string // the top-level argument that it is about, as the code or the schema has it; "" if there is none
	Text     string
}

type check struct {
	now     *catalog.Snapshot
	errs    map[string]error
	schemas func(tool.Definition) *schema.Schema
	found   []Finding
	seen    map[string]bool // names reported as missing: each is reported once, unless it is nil
	params  map[tool.Ref]params
}

func (c *check) add(line int, format string, args ...any) {
	c.found = append(c.found, Finding{Line: line, Text: fmt.Sprintf(format, args...)})
}

// addMissing reports a name as missing, once.
func (c *check) addMissing(line int, name, format string, args ...any) {
	if c.seen[name] {
		return
	}
	if c.seen != nil {
		c.seen[name] = true
	}
	c.add(line, format, args...)
}

// exists reports whether a tool can be used, or a server if function is "".
func (c *check) exists(server, function string, byName bool) bool {
	probe := check{now: c.now, errs: c.errs, seen: map[string]bool{}}
	switch v, ok := probe.server(server, 0); {
	case ok && (!v.Connected || c.failed(v)):
		return false
	case ok && function != "":
		probe.tool(v, function, byName, 0)
	}
	return len(probe.found) == 0
}

func (c *check) checkImport(i Import) {
	if i.Optional && !c.exists(i.Server, i.Function, false) {
		return
	}
	v, ok := c.server(i.Server, i.Line)
	switch {
	case !ok:
	case !v.Connected:
		c.addUnconnected(v, i.Line)
	case i.Function == "" && c.failed(v):
		c.addUnlisted(v, i.Line)
	case i.Function == "":
	case i.Function != "*":
		c.tool(v, i.Function, false, i.Line)
	case unlisted(v):
		c.addUnlisted(v, i.Line)
	}
}

// unlisted reports whether a server has not listed its tools.
func unlisted(v catalog.Server) bool { return v.Listed.IsZero() && v.Tools == 0 }

// failed reports whether a server has not listed its tools because of an error: its module would be
// empty.
func (c *check) failed(v catalog.Server) bool { return unlisted(v) && c.errs[v.Name] != nil }

func (c *check) addUnlisted(v catalog.Server, line int) {
	c.addMissing(line, v.Module, "server %s has not listed its tools: %s", v.Name, c.reason(v.Name))
}

func (c *check) addUnconnected(v catalog.Server, line int) {
	c.addMissing(line, v.Module, "server %s is known from a catalog only and not connected: the operator can add it to servers: in the "+
		"configuration", v.Name)
}

func (c *check) server(name string, line int) (catalog.Server, bool) {
	v, ok := c.now.Server(name)
	switch disabled := c.now.Disabled.Server(name); {
	case ok:
	case disabled != "":
		c.addMissing(line, name, "server %s is disabled by the operator, and cannot be used until it is enabled with `sandpiper servers "+
			"enable %[1]s`", disabled)
	default:
		c.addMissing(line, name, "there is no server %.80q%s", name, c.servers(name))
	}
	return v, ok
}

func (c *check) servers(name string) string {
	if near := c.now.NearestServers(name, 3); len(near) > 0 {
		return didYouMean(near)
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
	case !ok && !v.Connected:
		c.addUnconnected(v, line)
	case !ok && unlisted(v):
		c.addUnlisted(v, line)
	case !ok:
		c.addMissing(line, full, "server %s has no tool %.80q%s", v.Name, name, c.tools(v, name))
	case !t.Connected:
		c.addUnconnected(v, line)
	case t.New:
		c.addMissing(line, full, "%s.%s is quarantined because nobody has reviewed it yet; the operator can accept it with `sandpiper "+
			"tools accept %[1]s %[2]s`", v.Name, t.Definition.Tool)
	case t.Quarantined != nil:
		c.addMissing(line, full, "%s.%s is quarantined because its definition has changed; the operator can accept it with `sandpiper "+
			"tools accept %[1]s %[2]s`", v.Name, t.Definition.Tool)
	default:
		return t, true
	}
	return t, false
}

func (c *check) reason(server string) string {
	err := c.errs[server]
	if err == nil {
		return "they have not been requested yet"
	}
	hint := fault.Hint(err)
	if hint == "" {
		hint = fmt.Sprintf("the operator can correct its entry in servers: in the configuration, and try it with `sandpiper tools sync %s`",
			server)
	}
	return fault.Message(err) + "; " + hint
}

func (c *check) tools(v catalog.Server, name string) string {
	if near := c.now.NearestFunctions(v.Name, name, 3); len(near) > 0 {
		return didYouMean(near)
	}
	return fmt.Sprintf("; dir(servers.%s) lists them, search_tools finds others", v.Module)
}

func didYouMean(near []string) string { return "; did you mean " + strings.Join(near, " or ") + "?" }
