package preflight

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// params are the parameters of a tool.
type params struct {
	list   []codegen.Param
	python map[string]string // Python names to those of the schema
	more   bool              // others are allowed
}

// paramsOf decodes the parameters of a tool once.
func (c *check) paramsOf(t tool.Definition) params {
	p, ok := c.params[t.Ref]
	if !ok {
		p.list, p.more = codegen.Params(t)
		p.python = make(map[string]string, len(p.list))
		for _, one := range p.list {
			p.python[one.Python] = one.Name
		}
		c.params[t.Ref] = p
	}
	return p
}

// checkCall checks one call against the tool's schema.
func (c *check) checkCall(call Call) {
	if call.Optional && !c.exists(call.Server, call.Function, call.ByName) {
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
	of := c.paramsOf(t.Definition)
	params, python := of.list, of.python
	given, known := map[string]Literal{}, true
	for i, a := range call.Args {
		if i >= len(params) {
			c.add(call.Line, "%s takes %d arguments, but %d are passed", about, len(params), len(call.Args))
			return
		}
		given[params[i].Name] = a
	}
	for name, a := range call.Keywords {
		wire := name
		if !call.ByName {
			if wire, ok = python[name]; !ok && !of.more {
				c.add(call.Line, "%s has no argument %.80q%s", about, name, c.arguments(name, params, python))
				c.found[len(c.found)-1].Argument = name
				known = false
				continue
			}
			if !ok {
				wire = name
			}
		}
		given[wire] = a
	}
	c.checkValues(call, about, t, of, given, known)
}

func (c *check) arguments(name string, params []codegen.Param, python map[string]string) string {
	var all []string
	for p := range python {
		all = append(all, p)
	}
	slices.Sort(all)
	if near := fault.Nearest(name, all, 1); near != nil {
		return didYouMean(near)
	}
	if len(params) == 0 {
		return ": it takes none"
	}
	return "; there are " + strings.Join(all[:min(20, len(all))], ", ")
}

// checkValues checks the literal arguments, and that no required one is missing.
func (c *check) checkValues(call Call, about string, t catalog.Tool, of params, given map[string]Literal, known bool) {
	args, unseen := of.literals(call, given)
	for _, p := range of.list {
		if _, ok := given[p.Name]; !ok && (call.Unpacks || !known) {
			unseen[p.Name] = true
		}
	}
	uncertain := call.Unpacks || !known || len(unseen) > 0
	arguments := c.schemas(t.Definition)
	if uncertain && arguments.Conditional() {
		return
	}
	for _, problem := range arguments.Check(arguments.Fill(args).Map()) {
		top := strings.FieldsFunc(problem.Argument, func(r rune) bool { return r == '.' || r == '[' })
		if len(top) > 0 && unseen[top[0]] || problem.Argument == "" && uncertain {
			continue
		}
		c.add(call.Line, "%s: %s", about, withPythonName(problem, of.python))
		if len(top) > 0 {
			c.found[len(c.found)-1].Argument = top[0]
		}
	}
}

// withPythonName adds the argument's Python name to a problem.
func withPythonName(p schema.Problem, python map[string]string) string {
	for name, wire := range python {
		if p.Argument == wire && name != wire {
			p.Argument = fmt.Sprintf("%s (%s)", name, wire)
		}
	}
	return p.String()
}

// literals returns the arguments that are literals, and the names of the others. None for a parameter
// that omits it counts as an omitted argument.
func (of params) literals(call Call, given map[string]Literal) (args schema.Object, unseen map[string]bool) {
	unseen = map[string]bool{}
	omitsNone := map[string]bool{}
	for _, p := range of.list {
		omitsNone[p.Name] = p.OmitNone && !call.ByName
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch value := given[name].Value; {
		case string(value) == "null" && omitsNone[name]:
		case value == nil:
			unseen[name] = true
		default:
			args = append(args, schema.Member{Name: name, Value: decodeLiteral(value)})
		}
	}
	return args, unseen
}

func decodeLiteral(raw json.RawMessage) any {
	args, err := schema.DecodeObject(json.RawMessage(`{"v":` + string(raw) + `}`))
	if err != nil {
		return nil
	}
	return args.Get("v")
}
