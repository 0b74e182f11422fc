package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// code writes the code of a step as a function, and returns its name.
func (c *compiler) code(s *Step, in *scope) string {
	var parameters []string
	for _, f := range s.Arguments {
		parameters = append(parameters, f.Name)
	}
	part := execution.Part{Source: s.Code, Code: true, Known: append([]string{"inputs"}, parameters...), Steps: in.visible()}
	c.expressions = append(c.expressions, Expression{part, c.file, s.CodePos})
	assigns := slices.ContainsFunc(tokens(s.Code), func(t token) bool { return t.kind == nameToken && t.text == "result" })
	name := c.name("run_" + s.Name)
	c.write("")
	c.write("def %s(%s):", name, strings.Join(parameters, ", "))
	c.within(func() {
		if assigns {
			c.write("result = None")
		}
		inside := false // of a string with several lines
		for i, text := range strings.Split(strings.TrimRight(s.Code, " \t\n"), "\n") {
			at := Place{c.file, Pos{s.CodePos.Line + i, s.CodePos.Column}, s}
			if inside {
				c.lines = append(c.lines, line{text, at})
			} else {
				c.writeAt(text, at)
			}
			inside = endsInString(s.Code, i)
		}
		if assigns {
			c.write("return result")
		}
	})
	c.write("")
	return name
}

// endsInString reports whether line i of Python ends inside a string.
func endsInString(code string, i int) bool {
	end := 0
	for range i + 1 {
		n := strings.IndexByte(code[end:], '\n')
		if n < 0 {
			return false
		}
		end += n + 1
	}
	for _, t := range tokens(code) {
		if t.at < end-1 && t.at+len(t.text) >= end {
			return t.kind == stringToken
		}
	}
	return false
}

// block writes a list of steps inside another step and assigns the result of the last one.
func (c *compiler) block(steps []*Step, in *scope, to string) {
	inner := c.inner(in, steps)
	c.list(steps, inner)
	if len(steps) > 0 {
		c.write("%s = %s", to, inner.steps[steps[len(steps)-1].Name].name)
	}
}

func (c *compiler) condition(s *Step, in *scope, v *variable) {
	c.checkConstant(s.Test, true, "the steps of then in step "+s.Name+" are unreachable: if is always false")
	hasElse := slices.ContainsFunc(s.Blocks, func(b Block) bool { return b.Name == "else" })
	if hasElse {
		c.checkConstant(s.Test, false, "the steps of else in step "+s.Name+" are unreachable: if is always true")
	}
	step := c.step
	c.write("if %s:", c.python(s.Test, in))
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

// checkConstant reports a test that always has one value.
func (c *compiler) checkConstant(v *Value, value bool, message string) {
	if v == nil {
		return
	}
	always := false
	switch {
	case v.Template == nil:
		b, isBool := v.Plain.(bool)
		always = isBool && b != value
	case len(v.Template) == 1:
		constants := map[string]bool{"True": true, "False": false, "None": false, "0": false, "1": true, `""`: false, "''": false, "[]": false, "{}": false}
		is, known := constants[strings.TrimSpace(v.Template[0].Expr)]
		always = known && is != value
	}
	if always {
		c.add(v.Pos, "", "%s", message)
	}
}

func (c *compiler) parallel(s *Step, in *scope, v *variable) {
	step := c.step
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
			item.loop = s.As
			c.write("for count, %s in enumerate(%s):", s.As, c.python(s.Over, in))
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
	steps := s.Blocks[0].Steps
	inner := c.inner(item, steps)
	c.list(steps, inner)
	if s.Collect != nil {
		c.write("collected.append(%s)", c.python(s.Collect, inner))
	}
	if s.Until != nil {
		c.write("if %s:", c.python(s.Until, inner))
		c.within(func() {
			if s.Over != nil {
				c.write("break")
			} else if s.Collect != nil {
				c.write("return collected")
			} else {
				c.write("return %s", inner.steps[steps[len(steps)-1].Name].name)
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

// subWorkflow writes the function of another workflow, and returns its call.
func (c *compiler) subWorkflow(s *Step, in *scope) string {
	w := c.find(s)
	inputs := c.inputsOf(s, w)
	if w == nil {
		return "None"
	}
	if c.compiled[w.Name] == "" {
		c.subFunction(w)
	}
	return fmt.Sprintf("%s(%s)", c.compiled[w.Name], c.mapping(inputs, in))
}

// find returns the workflow that a step calls, or reports why it cannot be called.
func (c *compiler) find(s *Step) *Workflow {
	name := s.Target.Name
	if i := slices.Index(c.calls, name); i >= 0 {
		c.add(s.Target.Pos, "", "workflows call each other: %s -> %s", strings.Join(c.calls[i:], " -> "), name)
		return nil
	}
	if c.lib.Workflow == nil {
		c.add(s.Target.Pos, "", "there is no workflow %.60q", name)
		return nil
	}
	w, findings, all := c.lib.Workflow(name)
	switch {
	case len(findings) > 0:
		c.add(s.Target.Pos, "", "workflow %s has %d errors; the first: %s", name, len(findings), findings[0])
		return nil
	case w == nil:
		c.add(s.Target.Pos, nearestOrNone(name, all, "there are none"), "there is no workflow %.60q", name)
	}
	return w
}

// inputsOf returns the inputs of a call of w, with defaults, and reports wrong names.
func (c *compiler) inputsOf(s *Step, w *Workflow) []Field {
	if w == nil {
		for _, f := range s.Arguments {
			c.python(f.Value, &scope{})
		}
		return nil
	}
	fields := slices.Clone(s.Arguments)
	given := map[string]bool{}
	for _, f := range fields {
		given[f.Name] = true
		if !slices.Contains(w.InputNames, f.Name) {
			c.add(f.Pos, nearestOrNone(f.Name, w.InputNames, "it declares none"), "workflow %s has no input %.60q", w.Name, f.Name)
		}
	}
	schema := w.inputSchema()
	for _, name := range w.InputNames {
		property := schema.Properties[name]
		switch {
		case given[name]:
		case property.Default != nil:
			fields = append(fields, Field{Name: name, Value: &Value{Plain: decoded(property.Default)}})
		case slices.Contains(schema.Required, name):
			c.add(s.Target.Pos, "", "workflow %s needs the input %s", w.Name, name)
		}
	}
	return fields
}

// subFunction writes the function of a workflow, before everything else.
func (c *compiler) subFunction(w *Workflow) {
	lines, file, indent, step, durable := c.lines, c.file, c.indent, c.step, c.durable
	c.lines, c.file, c.indent, c.step, c.durable = nil, w.File, 0, nil, false
	c.calls = append(c.calls, w.Name)
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
	c.compiled[w.Name] = name
	c.functions = append(append(c.functions, line{}), c.lines...)
	c.lines, c.file, c.indent, c.step, c.durable = lines, file, indent, step, durable
}
