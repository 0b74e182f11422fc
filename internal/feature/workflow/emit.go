package workflow

import (
	"fmt"
	"strings"
)

// defaultIterations is the bound of loops over a list.
const defaultIterations = 100_000

// list writes a list of steps.
func (c *compiler) list(steps []*Step, in *scope) {
	segments := order(&c.findings, steps)
	if len(segments) == 1 {
		c.levels(segments[0], in, "")
		return
	}
	jump := c.name("jump")
	c.write("%s = None", jump)
	for _, s := range steps {
		v := in.steps[s.Name]
		c.write("%s = None", v.name)
		if v.wantsError {
			c.write("%s = None", v.error)
		}
	}
	for i, seg := range segments {
		if seg.target != "" {
			c.write("if %s == %s:", jump, pythonText(seg.target))
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

func (c *compiler) levels(seg segment, in *scope, jump string) {
	for _, level := range seg.levels {
		if c.stopped() {
			return
		}
		c.level(level, in, jump)
	}
}

// level writes steps that run at the same time. A step with goto runs alone.
func (c *compiler) level(level []*Step, in *scope, jump string) {
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
		targets = append(targets, assigned(in.steps[s.Name]))
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

// keepsError reports whether the code of a step assigns the text of its error.
func keepsError(v *variable) bool { return v.wantsError || v.step.OnError == Goto }

func assigned(v *variable) string {
	if keepsError(v) {
		return fmt.Sprintf("(%s, %s)", v.name, v.error)
	}
	return v.name
}

// thunkOf returns a function without arguments that runs a step, and writes it if needed.
func (c *compiler) thunkOf(s *Step, in *scope) string {
	v := in.steps[s.Name]
	if s.If == nil && s.OnError != Skip && s.Type != Condition && s.Type != Parallel {
		return "lambda: " + c.call(s, in)
	}
	function := c.name("do_" + s.Name)
	c.write("def %s():", function)
	c.within(func() {
		c.statements(s, in, "")
		c.write("return %s", strings.Trim(assigned(v), "()"))
	})
	return function
}

// statements writes the statements that assign the result of a step. With on_error goto they set
// the variable jump, unless that is "".
func (c *compiler) statements(s *Step, in *scope, jump string) {
	v := in.steps[s.Name]
	if keepsError(v) {
		c.write("%s = None", v.error)
	}
	if s.If != nil {
		checkConstant(&c.findings, s.If, "remove it", "the if of step "+s.Name+" is always true", "step "+s.Name+" is unreachable: its if is always false")
		c.write("%s = None", v.name)
		c.write("if %s:", c.pythonAs(s.If, in, asTest))
		c.within(func() { c.guarded(s, in, jump) })
		return
	}
	c.guarded(s, in, jump)
}

// guarded writes a step with its on_error.
func (c *compiler) guarded(s *Step, in *scope, jump string) {
	v := in.steps[s.Name]
	if s.OnError != Skip && s.OnError != Goto {
		c.bare(s, in)
		return
	}
	c.write("try:")
	c.within(func() { c.bare(s, in) })
	c.write("except Exception as error:")
	c.within(func() {
		c.write("%s = None", v.name)
		c.write(`print(f"step %s failed: {error}")`, s.Name)
		if keepsError(v) {
			c.write("%s = str(error)", v.error)
		}
		if s.OnError == Goto && jump != "" {
			c.write("%s = %s", jump, pythonText(s.Goto.Name))
		}
	})
}

// bare writes a step without its if and on_error.
func (c *compiler) bare(s *Step, in *scope) {
	v := in.steps[s.Name]
	switch {
	case s.Type != Condition && s.Type != Parallel:
		call := c.call(s, in)
		c.write("%s = %s", v.name, call)
	case s.Timeout == 0:
		c.lists(s, in, v)
	default:
		name := c.name("run_" + s.Name)
		c.write("def %s():", name)
		c.within(func() {
			c.lists(s, in, v)
			c.write("return %s", v.name)
		})
		c.write("")
		c.write("%s = %s", v.name, limited(s, name+"()"))
	}
}

// lists writes a step that consists of lists of others.
func (c *compiler) lists(s *Step, in *scope, v *variable) {
	if s.Type == Condition {
		c.condition(s, in, v)
		return
	}
	c.parallel(s, in, v)
}

// limited returns a call with the time limit of a step.
func limited(s *Step, work string) string {
	if s.Timeout == 0 {
		return work
	}
	return fmt.Sprintf("time_limit(%g, %s)", s.Timeout.Seconds(), thunk(work))
}

// call returns the expression that runs a step with its retries, and records it.
func (c *compiler) call(s *Step, in *scope) string {
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
		c.helpers["repeat_step"] = true
		work = fmt.Sprintf("repeat_step(%d, %s, %s)", s.Attempts, seconds(s), thunk(work))
	}
	if c.durable && s.Type != ToolCall && s.Type != Approval && s.Type != Wait { // calls and answers are on record themselves
		return fmt.Sprintf("step(%s, %s)", pythonText(s.Name), thunk(work))
	}
	return work
}

func seconds(s *Step) string {
	backoff := s.Backoff.Seconds()
	if backoff == 0 {
		backoff = 1
	}
	return fmt.Sprintf("%g", backoff)
}

// thunk returns a function that evaluates a call: the function itself if it has no arguments.
func thunk(call string) string {
	if f, ok := strings.CutSuffix(call, "()"); ok && isName(f) {
		return f
	}
	return "lambda: " + call
}
