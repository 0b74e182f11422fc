package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
)

// callWriter writes the calls that do the work of steps, and collects what these need.
type callWriter struct {
	valueWriter
	lib     Library
	callees map[string]*callee
	path    []string // names of the workflows that are being compiled, outermost first
	skills  map[string]signature
	servers bool // the code calls tools
}

// work returns the call that does the work of a step that has no others, and writes the functions that it needs.
func (c *callWriter) work(s *Step, in int) string {
	switch s.Type {
	case ToolCall:
		return c.toolCall(s, in)
	case CodeExecution:
		return c.code(s, in) + c.arguments(s.Arguments, in)
	case Skill:
		return c.skill(s, c.arguments(s.Arguments, in))
	case Approval:
		return c.approval(s, in)
	case Wait:
		return c.wait(s, in)
	case Form:
		return "workflow.fill_form" + c.arguments(s.Arguments, in)
	}
	return "None" // the reader reported the type
}

func (c *callWriter) toolCall(s *Step, in int) string {
	server, name := s.tool()
	arguments := c.arguments(s.Arguments, in)
	if server == "" || name == "" { // the reader reported it
		return "None"
	}
	c.servers = true
	return fmt.Sprintf("servers.%s.%s%s", module(server), module(name), arguments)
}

func (c *callWriter) skill(s *Step, arguments string) string {
	name := s.Target.Name
	if !isName(name) { // the reader reported it
		return "None"
	}
	if all := c.lib.Skills; all != nil && !slices.Contains(all, name) {
		c.add(s.Target.Pos, c.nearest(name, all, "none is saved"), "there is no skill %.60q", name)
	}
	of, known := c.skills[name]
	if !known {
		var f pysource.Function
		found := false
		if c.lib.Skill != nil {
			f, found = c.lib.Skill(name)
		}
		of = newSignature(f.Input())
		of.any = !found || strings.Contains(f.Params, "**")
		c.skills[name] = of
	}
	c.checkArguments(s, of, "argument")
	return "skill_" + name + arguments
}

func (c *callWriter) approval(s *Step, in int) string {
	question := c.python(s.Question, in)
	if v := s.Question; v != nil {
		if _, text := v.Plain.(string); v.Template == nil && !text {
			c.add(v.Pos, "", "the question of step %s is no text", s.Name)
		}
	}
	if s.Schema == nil {
		return "workflow.approve(" + question + ")"
	}
	return fmt.Sprintf("workflow.answer(%s, %s)", question, constantJSON(s.Schema))
}

// wait returns the call of the function that the config names.
func (c *callWriter) wait(s *Step, in int) string {
	call, timeout := "", ""
	for _, f := range s.Arguments {
		if f.Name == "timeout" {
			timeout = ", timeout=" + c.python(f.Value, in)
		} else {
			call = f.Name + "(" + c.python(f.Value, in)
		}
	}
	if call == "" { // the reader reported it
		return "None"
	}
	return call + timeout + ")"
}

// code writes the code of a step as a function, and returns its name.
func (c *callWriter) code(s *Step, in int) string {
	var parameters []string
	for _, f := range s.Arguments {
		parameters = append(parameters, f.Name)
	}
	source := cmp.Or(c.replaced[place(c.findings.file, s.CodePos)], s.Code)
	if strings.TrimSpace(source) == "" {
		source = "pass"
	}
	part := pycode.Part{Source: s.Code, Code: true, Known: parameters, Scope: in}
	c.expressions = append(c.expressions, Expression{part, c.findings.file, s.CodePos})
	assigns := resultName().MatchString(s.Code)
	name := c.name("run_" + s.Name)
	c.write("")
	c.write("def %s(%s):", name, strings.Join(parameters, ", "))
	c.within(func() {
		if assigns {
			c.write("result = None")
		}
		c.lines(strings.TrimRight(source, " \t\n"), func(i int) Place {
			return Place{c.findings.file, Pos{s.CodePos.Line + i, s.CodePos.Column}, s}
		})
		if assigns {
			c.write("return result")
		}
	})
	c.write("")
	return name
}

// resultName matches code that may assign its result.
var resultName = lazyregexp.New(`\bresult\b`)

// module returns the Python name of a server or a tool.
func module(name string) string { return tool.ModuleNames([]string{name})[name] }

// callee is a workflow that others call.
type callee struct {
	workflow *Workflow // nil if it cannot be called
	findings []Finding
	all      []string // names of those that exist
	inputs   signature
}

// callee returns the workflow that a step calls, or reports why it cannot be called.
func (c *callWriter) callee(s *Step) *callee {
	name := s.Target.Name
	if !isName(name) { // the reader reported it
		return &callee{}
	}
	if i := slices.Index(c.path, name); i >= 0 {
		c.add(s.Target.Pos, "", "workflows call each other: %s -> %s", strings.Join(c.path[i:], " -> "), name)
		return &callee{}
	}
	of := c.callees[name]
	if of == nil {
		of = &callee{}
		if c.lib.Workflow != nil {
			of.workflow, of.findings, of.all = c.lib.Workflow(name)
		}
		if of.workflow != nil {
			of.inputs = newSignature(of.workflow.Inputs)
		}
		c.callees[name] = of
	}
	switch {
	case len(of.findings) > 0:
		c.add(s.Target.Pos, "", "workflow %s has %d errors; the first: %s", name, len(of.findings), of.findings[0])
	case of.workflow == nil:
		c.add(s.Target.Pos, c.nearest(name, of.all, "there are none"), "there is no workflow %.60q", name)
	}
	return of
}

// inputsOf returns the inputs of a call, with defaults, and reports wrong ones.
func (c *callWriter) inputsOf(s *Step, of *callee) []Field {
	if of.workflow == nil {
		return s.Arguments
	}
	c.checkArguments(s, of.inputs, "input")
	fields, given := slices.Clone(s.Arguments), map[string]bool{}
	for _, f := range fields {
		given[f.Name] = true
	}
	for _, name := range of.workflow.InputNames {
		if value := of.inputs.Properties[name].Default; value != nil && !given[name] && !c.stopped() {
			fields = append(fields, Field{Name: name, Value: &Value{Plain: decoded(value)}})
		}
	}
	return fields
}

// header writes imports and the helpers that the code uses.
func (c *callWriter) header() {
	c.write("")
	if c.servers {
		c.write("import servers")
	}
	for _, name := range names(c.skills) {
		c.write("from skills import %s as skill_%s", name, name)
	}
	c.write("")
}
