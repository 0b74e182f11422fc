package workflow

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
)

// block writes a list of steps inside another step, and returns the Python of the result of the last one.
func (c *compiler) block(steps []*Step, outer int, loop string) (in int, result string) {
	in = c.scope(pycode.Scope{Outer: outer, Steps: given(steps), Loop: loop})
	c.list(steps, in)
	return in, last(steps)
}

func (c *compiler) condition(s *Step, in int) {
	blocks := map[string][]*Step{}
	for _, b := range s.Blocks {
		blocks[b.Name] = b.Steps
	}
	always := "the if of step " + s.Name + " is always true"
	if blocks["else"] != nil {
		always = "the steps of else in step " + s.Name + " are unreachable: if is always true"
	}
	c.write("if %s:", c.test(s.Test, in, "", always, "the steps of then in step "+s.Name+" are unreachable: if is always false"))
	for _, name := range []string{"then", "else"} {
		if name == "else" {
			c.write("else:")
		}
		c.within(func() {
			_, result := c.block(blocks[name], in, "")
			c.write("steps.%s = %s", s.Name, result)
		})
	}
}

func (c *compiler) parallel(s *Step, in int) {
	c.notes.add(s.NamePos, "", "the %d branches of step %s run at the same time", len(s.Blocks), s.Name)
	var branches []string
	for i, b := range s.Blocks {
		name := c.name(fmt.Sprintf("run_%s_%d", s.Name, i+1))
		c.write("def %s():", name)
		c.within(func() {
			_, result := c.block(b.Steps, in, "")
			c.write("return %s", result)
		})
		c.write("")
		branches = append(branches, name)
	}
	c.write("steps.%s = parallel(%s)", s.Name, strings.Join(branches, ", "))
}

// loop writes a loop as a function and returns its call. The steps inside are not recorded one by
// one: their number is not known.
func (c *compiler) loop(s *Step, in int) string {
	name, collected := c.name("run_"+s.Name), c.name("collected")
	defer delete(c.taken, collected)
	durable := c.durable
	c.durable = false
	c.write("def %s():", name)
	c.within(func() {
		if s.Collect != nil {
			c.write("%s = []", collected)
		}
		loop := ""
		if s.Over == nil {
			c.write("for _ in range(%d):", s.Max)
		} else {
			loop = s.As
			c.expression(Part{Expr: s.As, Pos: s.ConfigPos}, pycode.Part{Scope: in, Use: "variable"})
			c.write("for %s in workflow.each(%q, %s, %d):", s.As, s.Name, c.over(s, in), cmp.Or(s.Max, defaultIterations))
		}
		c.within(func() { c.iteration(s, in, loop, collected) })
		switch {
		case s.Over == nil:
			c.write("raise RuntimeError(\"loop %s has ended after %d iterations, and until was never true\")", s.Name, s.Max)
		case s.Collect != nil:
			c.write("return %s", collected)
		}
	})
	c.write("")
	c.durable = durable
	return name + "()"
}

// over returns the Python of what a loop is over, and reports a value that is no list.
func (w *valueWriter) over(s *Step, in int) string {
	v := s.Over
	switch {
	case v.isExpression():
		return w.expression(v.Template[0], pycode.Part{Scope: in, Use: "list"})
	case v.List == nil && v.Map == nil:
		w.add(v.Pos, "write a list, or ${{ EXPRESSION }}", "over of loop %s is no list", s.Name)
	}
	return w.python(v, in)
}

// iteration writes the body of a loop.
func (c *compiler) iteration(s *Step, outer int, loop, collected string) {
	var steps []*Step
	if len(s.Blocks) > 0 {
		steps = s.Blocks[0].Steps
	}
	in, result := c.block(steps, outer, loop)
	if len(steps) == 0 { // the reader reported it
		c.write("pass")
	}
	if s.Collect != nil {
		c.write("%s.append(%s)", collected, c.python(s.Collect, in))
		result = collected
	}
	if s.Until == nil {
		return
	}
	always, never := " ends after one iteration: until is always true", " is not ended by until, which is always false"
	c.write("if %s:", c.test(s.Until, in, "remove it", "loop "+s.Name+always, "loop "+s.Name+never))
	c.within(func() {
		if s.Over != nil {
			c.write("break")
		} else {
			c.write("return %s", result)
		}
	})
}

// subWorkflow writes the function of another workflow, and returns its call.
func (c *compiler) subWorkflow(s *Step, in int) string {
	name, of := s.Target.Name, c.callee(s)
	inputs := c.mapping(c.inputsOf(s, of), in)
	if of.workflow == nil {
		return "None"
	}
	if c.compiled[name] == "" {
		c.subFunction(name, of.workflow)
	}
	return fmt.Sprintf("%s(%s)", c.compiled[name], inputs)
}

// subFunction writes the function of a workflow, before everything else.
func (c *compiler) subFunction(as string, w *Workflow) {
	outer, file, durable := c.output, c.findings.file, c.durable
	c.written, c.indent, c.step, c.durable = nil, 0, nil, false
	c.setFile(w.File)
	c.path = append(c.path, as)
	name := c.name("workflow_" + w.Name)
	c.write("def %s(inputs):", name)
	c.within(func() {
		c.reserve(w)
		c.write("return %s", c.body(w))
	})
	c.write("")
	c.path = c.path[:len(c.path)-1]
	c.compiled[as] = name
	c.functions = append(append(c.functions, line{}), c.written...)
	outer.size = c.size
	c.output, c.durable = outer, durable
	c.setFile(file)
}
