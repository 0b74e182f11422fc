package workflow

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// defaultIterations is the bound of loops over a list.
const defaultIterations = 100_000

// list writes a list of steps.
func (c *compiler) list(steps []*Step, in int) {
	segments := order(&c.findings, steps)
	if len(segments) < 2 {
		for _, seg := range segments {
			c.levels(seg, in, "")
		}
		return
	}
	jump := c.name("jump")
	c.write("%s = None", jump)
	for _, s := range steps {
		c.write("steps.%s = None", s.Name)
	}
	for i, seg := range segments {
		if seg.target != "" {
			c.write("if %s == %s:", jump, strconv.Quote(seg.target))
			c.within(func() { c.write("%s = None", jump) })
		}
		if i == 0 {
			c.levels(seg, in, jump)
			continue
		}
		c.write("if %s is None:", jump)
		c.within(func() { c.levels(seg, in, jump) })
	}
}

func (c *compiler) levels(seg segment, in int, jump string) {
	for _, level := range seg.levels {
		if c.stopped() {
			return
		}
		c.level(level, in, jump)
	}
}

// level writes steps that run at the same time. A step with goto runs alone.
func (c *compiler) level(level []*Step, in int, jump string) {
	defer func(outer *Step) { c.step = outer }(c.step)
	if len(level) == 1 {
		c.step = level[0]
		c.write("")
		c.statements(level[0], in, jump)
		return
	}
	c.notes.add(level[0].NamePos, "", "steps %s run at the same time", strings.Join(stepNames(level), ", "))
	var targets, thunks []string
	for _, s := range level {
		c.step = s
		c.write("")
		targets = append(targets, "steps."+s.Name)
		thunks = append(thunks, c.thunkOf(s, in))
	}
	c.step = nil
	c.write("")
	c.write("%s = parallel(", strings.Join(targets, ", "))
	for i, s := range level {
		c.step = s
		c.within(func() { c.write("%s,", thunks[i]) })
	}
	c.step = nil
	c.write(")")
}

// thunkOf returns a function without arguments that runs a step, and writes it if needed.
func (c *compiler) thunkOf(s *Step, in int) string {
	if s.If == nil && s.OnError != Skip && !s.hasLists() {
		return "lambda: " + c.call(s, in)
	}
	function := c.name("do_" + s.Name)
	c.write("def %s():", function)
	c.within(func() {
		c.statements(s, in, "")
		c.write("return steps.%s", s.Name)
	})
	return function
}

// hasLists reports whether a step consists of lists of others that are no loop.
func (s *Step) hasLists() bool { return s.Type == Condition || s.Type == Parallel }

// statements writes the statements that end a step. With on_error goto they set the variable jump, unless
// that is "".
func (c *compiler) statements(s *Step, in int, jump string) {
	if s.If == nil {
		c.guarded(s, in, jump)
		return
	}
	c.write("steps.%s = None", s.Name)
	always, never := "the if of step "+s.Name+" is always true", "step "+s.Name+" is unreachable: its if is always false"
	c.write("if %s:", c.test(s.If, in, "remove it", always, never))
	c.within(func() { c.guarded(s, in, jump) })
}

// guarded writes a step with its on_error.
func (c *compiler) guarded(s *Step, in int, jump string) {
	if s.OnError != Skip && s.OnError != Goto {
		c.bare(s, in)
		return
	}
	c.write("try:")
	c.within(func() { c.bare(s, in) })
	c.write("except Exception as error:")
	c.within(func() {
		c.write("steps.%s = workflow.failed(%q, error)", s.Name, s.Name)
		if s.OnError == Goto && jump != "" {
			c.write("%s = %q", jump, s.Goto.Name)
		}
	})
}

// bare writes a step without its if and on_error.
func (c *compiler) bare(s *Step, in int) {
	lists := c.parallel
	if s.Type == Condition {
		lists = c.condition
	}
	switch {
	case !s.hasLists():
		call := c.call(s, in)
		c.write("steps.%s = %s", s.Name, call)
	case s.Timeout == 0:
		lists(s, in)
	default:
		name := c.name("run_" + s.Name)
		c.write("def %s():", name)
		c.within(func() {
			lists(s, in)
			c.write("return steps.%s", s.Name)
		})
		c.write("")
		c.write("steps.%s = %s", s.Name, limited(s, name+"()"))
	}
}

// limited returns a call with the time limit of a step.
func limited(s *Step, work string) string {
	if s.Timeout == 0 {
		return work
	}
	return fmt.Sprintf("time_limit(%g, %s)", s.Timeout.Seconds(), thunk(work))
}

// call returns the expression that runs a step with its retries, and records it.
func (c *compiler) call(s *Step, in int) string {
	if c.stopped() {
		return "None"
	}
	work := ""
	switch s.Type {
	case Loop:
		work = c.loop(s, in)
	case SubWorkflow:
		work = c.subWorkflow(s, in)
	default:
		work = c.work(s, in)
	}
	work = limited(s, work)
	if s.Attempts > 1 {
		work = fmt.Sprintf("workflow.repeat(%d, %g, %s)", s.Attempts, cmp.Or(s.Backoff, time.Second).Seconds(), thunk(work))
	}
	if c.durable && s.Type != ToolCall && s.Type != Approval && s.Type != Wait { // calls and answers are on record themselves
		return fmt.Sprintf("step(%s, %s)", strconv.Quote(s.Name), thunk(work))
	}
	return work
}

// thunk returns a function that evaluates a call: the function itself if it has no arguments.
func thunk(call string) string {
	if f, ok := strings.CutSuffix(call, "()"); ok && isName(f) {
		return f
	}
	return "lambda: " + call
}
