package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// block writes a list of steps inside another step and assigns the result of the last one.
func (c *compiler) block(steps []*Step, in *scope, to string) {
	inner := in.inner(&c.output, steps)
	c.list(steps, inner)
	c.write("%s = %s", to, inner.last(steps))
}

func (c *compiler) condition(s *Step, in *scope, v *variable) {
	always := "the if of step " + s.Name + " is always true"
	if slices.ContainsFunc(s.Blocks, func(b Block) bool { return b.Name == "else" }) {
		always = "the steps of else in step " + s.Name + " are unreachable: if is always true"
	}
	checkConstant(&c.findings, s.Test, "", always, "the steps of then in step "+s.Name+" are unreachable: if is always false")
	c.write("if %s:", c.pythonAs(s.Test, in, asTest))
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
		})
	}
}

func (c *compiler) parallel(s *Step, in *scope, v *variable) {
	c.notes.add(s.NamePos, "", "the %d branches of step %s run at the same time", len(s.Blocks), s.Name)
	var branches []string
	for i, b := range s.Blocks {
		name := c.name(fmt.Sprintf("%s_%d", s.Name, i+1))
		c.write("def %s():", name)
		c.within(func() {
			c.block(b.Steps, in, "result")
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
	durable := c.durable
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
			checkVariable(&c.findings, s, in)
			checkOver(&c.findings, s)
			item.loop = s.As
			c.write("for count, %s in enumerate(%s):", s.As, c.pythonAs(s.Over, in, asList))
		}
		c.within(func() { c.iteration(s, item, most) })
		switch {
		case s.Over == nil:
			c.write("raise RuntimeError(\"loop %s has ended after %d iterations, and until was never true\")", s.Name, most)
		case s.Collect != nil:
			c.write("return collected")
		}
	})
	c.write("")
	c.durable = durable
	return name + "()"
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
	inner := item.inner(&c.output, steps)
	c.list(steps, inner)
	if s.Collect != nil {
		c.write("collected.append(%s)", c.python(s.Collect, inner))
	}
	if s.Until != nil {
		checkUntil(&c.findings, s)
		c.write("if %s:", c.pythonAs(s.Until, inner, asTest))
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

// subWorkflow writes the function of another workflow, and returns its call.
func (c *compiler) subWorkflow(s *Step, in *scope) string {
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
	c.lines, c.indent, c.step, c.durable = nil, 0, nil, false
	c.setFile(w.File)
	c.path = append(c.path, as)
	name := c.name("workflow_" + w.Name)
	c.write("def %s(inputs):", name)
	c.within(func() {
		result := c.body(w)
		c.write("return %s", result)
	})
	c.write("")
	c.path = c.path[:len(c.path)-1]
	c.compiled[as] = name
	c.functions = append(append(c.functions, line{}), c.lines...)
	outer.size = c.size
	c.output, c.durable = outer, durable
	c.setFile(file)
}
