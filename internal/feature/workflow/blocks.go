package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// code writes the code of a step as a function, and returns its name.
func (c *compiler) code(s *Step, in *scope) string {
	var parameters []string
	for _, f := range s.Arguments {
		parameters = append(parameters, f.Name)
	}
	source := s.Code
	if c.unparsable[place(c.file, s.CodePos)] || strings.TrimSpace(source) == "" {
		source = "pass"
	}
	part := pycode.Part{Source: s.Code, Code: true, Known: append([]string{"inputs"}, parameters...), Steps: in.mentioned(s.Code)}
	c.expressions = append(c.expressions, Expression{part, c.file, s.CodePos})
	assigns := false
	for t := range eachToken(s.Code) {
		assigns = assigns || t.kind == nameToken && t.text == "result"
	}
	name := c.name("run_" + s.Name)
	c.write("")
	c.write("def %s(%s):", name, strings.Join(parameters, ", "))
	c.within(func() {
		if assigns {
			c.write("result = None")
		}
		inside := linesInStrings(source)
		for i, text := range strings.Split(strings.TrimRight(source, " \t\n"), "\n") {
			at := Place{c.file, Pos{s.CodePos.Line + i, s.CodePos.Column}, s}
			if inside[i] {
				c.addLine(text, at)
			} else {
				c.writeAt(text, at)
			}
		}
		if assigns {
			c.write("return result")
		}
	})
	c.write("")
	return name
}

// linesInStrings returns the lines of Python that begin inside a string, from 0.
func linesInStrings(code string) map[int]bool {
	inside, i := map[int]bool{}, 0
	for t := range eachToken(code) {
		for range strings.Count(t.text, "\n") {
			i++
			if t.kind == stringToken {
				inside[i] = true
			}
		}
	}
	return inside
}

// block writes a list of steps inside another step and assigns the result of the last one.
func (c *compiler) block(steps []*Step, in *scope, to string) {
	inner := c.inner(in, steps)
	c.list(steps, inner)
	c.write("%s = %s", to, inner.last(steps))
}

func (c *compiler) condition(s *Step, in *scope, v *variable) {
	always := "the if of step " + s.Name + " is always true"
	if slices.ContainsFunc(s.Blocks, func(b Block) bool { return b.Name == "else" }) {
		always = "the steps of else in step " + s.Name + " are unreachable: if is always true"
	}
	c.checkConstant(s.Test, "", always, "the steps of then in step "+s.Name+" are unreachable: if is always false")
	step := c.step
	c.write("if %s:", test(c, s.Test, in))
	for _, name := range []string{"then", "else"} {
		if name == "else" {
			c.write("else:")
		}
		i := slices.IndexFunc(s.Blocks, func(b Block) bool { return b.Name == name })
		c.within(func() {
			if i < 0 {
				c.write("%s = None", v.name)
				return
			}
			c.block(s.Blocks[i].Steps, in, v.name)
			c.step = step
		})
	}
}

// checkConstant reports a test that always has one value, with one of two messages. The sandbox
// finds other constant tests.
func (c *compiler) checkConstant(v *Value, hint, whenTrue, whenFalse string) {
	if v == nil {
		return
	}
	is, known := v.Plain.(bool)
	if len(v.Template) == 1 {
		is, known = constants[v.Template[0].Expr]
	}
	switch {
	case known && is:
		c.add(v.Pos, hint, "%s", whenTrue)
	case known:
		c.add(v.Pos, "", "%s", whenFalse)
	}
}

// constants are expressions that are found to be constant without the sandbox.
var constants = map[string]bool{"True": true, "False": false, "None": false, "0": false, "1": true, `""`: false, "''": false, "[]": false, "{}": false}

// checkUntil reports an until that is always true or false.
func checkUntil(c *compiler, s *Step) {
	c.checkConstant(s.Until, "remove it", "loop "+s.Name+" ends after one iteration: until is always true", "loop "+s.Name+" is not ended by until, which is always false")
}

// checkOver reports a value of over that is no list.
func checkOver(c *compiler, s *Step) {
	v := s.Over
	text := v.Template != nil && (len(v.Template) > 1 || v.Template[0].Expr == "")
	if text || v.Template == nil && v.List == nil && v.Map == nil {
		c.add(v.Pos, "write a list, or ${{ EXPRESSION }}", "over of loop %s is no list", s.Name)
	}
}

func (c *compiler) parallel(s *Step, in *scope, v *variable) {
	step := c.step
	note(c, s.NamePos, "the %d branches of step %s run at the same time", len(s.Blocks), s.Name)
	var branches []string
	for i, b := range s.Blocks {
		name := c.name(fmt.Sprintf("%s_%d", s.Name, i+1))
		c.write("def %s():", name)
		c.within(func() {
			c.block(b.Steps, in, "result")
			c.step = step
			c.write("return result")
		})
		c.write("")
		branches = append(branches, name)
	}
	c.write("%s = parallel(%s)", v.name, strings.Join(branches, ", "))
}

// loop writes a loop as a function and returns its call. The steps inside are not recorded one by
// one: their number is not known.
func (c *compiler) loop(s *Step, in *scope) string {
	name := c.name("run_" + s.Name)
	durable, step := c.durable, c.step
	c.durable = false
	c.write("def %s():", name)
	c.within(func() {
		item, most := &scope{outer: in}, s.Max
		if s.Collect != nil {
			c.write("collected = []")
		}
		if s.Over == nil {
			c.write("for count in range(%d):", most)
		} else {
			if most == 0 {
				most = defaultIterations
			}
			c.checkVariable(s, in)
			checkOver(c, s)
			item.loop = s.As
			c.write("for count, %s in enumerate(%s):", s.As, iterable(c, s.Over, in))
		}
		c.within(func() { c.iteration(s, item, most) })
		c.step = step
		c.afterLoop(s, most)
	})
	c.write("")
	c.durable = durable
	return name + "()"
}

// checkVariable reports a variable of a loop that hides another name.
func (c *compiler) checkVariable(s *Step, in *scope) {
	if s.As == "steps" || s.As == "inputs" || slices.Contains(reservedNames, s.As) || in.find(s.As) != nil {
		c.add(s.ConfigPos, "choose another name with as", "the variable %s of loop %s hides another name", s.As, s.Name)
	}
}

// iteration writes the body of a loop.
func (c *compiler) iteration(s *Step, item *scope, most int) {
	if s.Over != nil {
		c.write("if count == %d:", most)
		c.within(func() {
			c.write("raise RuntimeError(\"loop %s has more than %d iterations; raise max_iterations\")", s.Name, most)
		})
	}
	var steps []*Step
	if len(s.Blocks) > 0 {
		steps = s.Blocks[0].Steps
	}
	inner := c.inner(item, steps)
	c.list(steps, inner)
	if s.Collect != nil {
		c.write("collected.append(%s)", c.python(s.Collect, inner))
	}
	if s.Until != nil {
		checkUntil(c, s)
		c.write("if %s:", test(c, s.Until, inner))
		c.within(func() {
			if s.Over != nil {
				c.write("break")
			} else if s.Collect != nil {
				c.write("return collected")
			} else {
				c.write("return %s", inner.last(steps))
			}
		})
	}
}

// afterLoop writes the result of a loop.
func (c *compiler) afterLoop(s *Step, most int) {
	switch {
	case s.Over == nil:
		c.write("raise RuntimeError(\"loop %s has ended after %d iterations, and until was never true\")", s.Name, most)
	case s.Collect != nil:
		c.write("return collected")
	}
}

// module returns the Python name of a server or a tool.
func module(name string) string { return tool.ModuleNames([]string{name})[name] }

// callee is a workflow that others call.
type callee struct {
	workflow *Workflow // nil if it cannot be called
	findings []Finding
	all      []string // names of those that exist
	inputs   inputSchema
}

// subWorkflow writes the function of another workflow, and returns its call.
func (c *compiler) subWorkflow(s *Step, in *scope) string {
	if !isName(s.Target.Name) { // the reader reported it
		return unused(c, s, in)
	}
	of := c.find(s)
	inputs := c.inputsOf(s, of)
	if of.workflow == nil {
		return unused(c, s, in)
	}
	name := s.Target.Name
	if c.compiled[name] == "" {
		c.subFunction(name, of.workflow)
	}
	return fmt.Sprintf("%s(%s)", c.compiled[name], layout(c, c.mapping(inputs, in)))
}

// unused checks the arguments of a step that cannot be called.
func unused(c *compiler, s *Step, in *scope) string {
	for _, f := range s.Arguments {
		value(c, f.Value, in)
	}
	return "None"
}

// find returns the workflow that a step calls, or reports why it cannot be called.
func (c *compiler) find(s *Step) *callee {
	name := s.Target.Name
	if i := slices.Index(c.calls, name); i >= 0 {
		c.add(s.Target.Pos, "", "workflows call each other: %s -> %s", strings.Join(c.calls[i:], " -> "), name)
		return &callee{}
	}
	of := c.callees[name]
	if of == nil {
		of = &callee{}
		if c.lib.Workflow != nil {
			of.workflow, of.findings, of.all = c.lib.Workflow(name)
		}
		if of.workflow != nil {
			of.inputs = of.workflow.inputSchema()
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

// inputsOf returns the inputs of a call, with defaults, and reports wrong names.
func (c *compiler) inputsOf(s *Step, of *callee) []Field {
	w := of.workflow
	if w == nil {
		return s.Arguments
	}
	fields := slices.Clone(s.Arguments)
	given := map[string]bool{}
	for _, f := range fields {
		given[f.Name] = true
		if _, declared := of.inputs.Properties[f.Name]; !declared {
			c.add(f.Pos, c.nearest(f.Name, w.InputNames, "it declares none"), "workflow %s has no input %.60q", w.Name, f.Name)
		}
	}
	required := map[string]bool{}
	for _, name := range of.inputs.Required {
		required[name] = true
	}
	for _, name := range w.InputNames {
		property := of.inputs.Properties[name]
		switch {
		case c.stopped(), given[name]:
		case property.Default != nil:
			fields = append(fields, Field{Name: name, Value: &Value{Plain: decoded(property.Default)}})
		case required[name]:
			c.add(s.Target.Pos, "", "workflow %s needs the input %s", w.Name, name)
		}
	}
	return fields
}

// subFunction writes the function of a workflow, before everything else.
func (c *compiler) subFunction(as string, w *Workflow) {
	lines, file, indent, step, durable := c.lines, c.file, c.indent, c.step, c.durable
	c.lines, c.file, c.indent, c.step, c.durable = nil, w.File, 0, nil, false
	c.calls = append(c.calls, as)
	name := c.name("workflow_" + w.Name)
	c.write("def %s(inputs):", name)
	c.within(func() {
		top := c.topScope(w)
		c.list(w.Steps, top)
		c.step = nil
		c.write("return %s", c.result(w, top))
	})
	c.write("")
	c.calls = c.calls[:len(c.calls)-1]
	c.compiled[as] = name
	c.functions = append(append(c.functions, line{}), c.lines...)
	c.lines, c.file, c.indent, c.step, c.durable = lines, file, indent, step, durable
}
