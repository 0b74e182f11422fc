package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// defaultIterations is the bound of loops over a list.
const defaultIterations = 100_000

// list writes a list of steps.
func (c *compiler) list(steps []*Step, in *scope) {
	segments := c.order(steps)
	if len(segments) == 1 {
		levelsOf(c, segments[0], in, "")
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
			levelsOf(c, seg, in, jump)
			continue
		}
		c.write("if %s is None:", jump)
		c.within(func() { levelsOf(c, seg, in, jump) })
	}
}

func levelsOf(c *compiler, seg segment, in *scope, jump string) {
	for _, level := range seg.levels {
		if c.stopped() {
			return
		}
		c.level(level, in, jump)
	}
}

// level writes steps that run at the same time. A step with goto runs alone.
func (c *compiler) level(level []*Step, in *scope, jump string) {
	defer func() { c.step = nil }()
	if len(level) == 1 {
		c.single(level[0], in, jump)
		return
	}
	note(c, level[0].NamePos, "steps %s run at the same time", strings.Join(stepNames(level), ", "))
	var targets, thunks []string
	for _, s := range level {
		c.step = s
		c.write("")
		targets = append(targets, c.assigned(in.steps[s.Name]))
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

func (c *compiler) assigned(v *variable) string {
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
		c.write("return %s", strings.Trim(c.assigned(v), "()"))
	})
	return function
}

// single writes a step that runs alone.
func (c *compiler) single(s *Step, in *scope, jump string) {
	c.step = s
	c.write("")
	c.statements(s, in, jump)
}

// statements writes the statements that assign the result of a step. With on_error goto they set
// the variable jump, unless that is "".
func (c *compiler) statements(s *Step, in *scope, jump string) {
	v := in.steps[s.Name]
	if keepsError(v) {
		c.write("%s = None", v.error)
	}
	if s.If != nil {
		c.checkConstant(s.If, "remove it", "the if of step "+s.Name+" is always true", "step "+s.Name+" is unreachable: its if is always false")
		c.write("%s = None", v.name)
		c.write("if %s:", test(c, s.If, in))
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
	work := limited(s, c.work(s, in))
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

// work returns the call that does the work of a step, and writes the functions that it needs.
func (c *compiler) work(s *Step, in *scope) string {
	switch s.Type {
	case ToolCall:
		return c.toolCall(s, in)
	case CodeExecution:
		return c.code(s, in) + c.arguments(s.Arguments, in)
	case Skill:
		return c.skill(s, c.arguments(s.Arguments, in))
	case Loop:
		return c.loop(s, in)
	case Approval:
		return c.approval(s, in)
	case SubWorkflow:
		return c.subWorkflow(s, in)
	case Wait:
		return c.wait(s, in)
	case Form:
		c.helpers["fill_form"] = true
		return "fill_form" + c.arguments(s.Arguments, in)
	}
	return "None" // the reader reported the type
}

func (c *compiler) toolCall(s *Step, in *scope) string {
	server, name := s.tool()
	arguments := c.arguments(s.Arguments, in)
	if server == "" || name == "" { // the reader reported it
		return "None"
	}
	c.servers = true
	return fmt.Sprintf("servers.%s.%s%s", module(server), module(name), arguments)
}

func (c *compiler) skill(s *Step, arguments string) string {
	name := s.Target.Name
	if !isName(name) { // the reader reported it
		return "None"
	}
	if all := c.lib.Skills; all != nil && !slices.Contains(all, name) {
		c.add(s.Target.Pos, c.nearest(name, all, "none is saved"), "there is no skill %.60q", name)
	}
	if c.skills[name] == nil {
		c.skills[name] = &skill{as: c.name(name)}
		if c.lib.Skill != nil {
			c.skills[name].read(c.lib.Skill(name))
		}
	}
	for _, f := range c.skills[name].check(s) {
		c.add(f.Pos, f.Hint, "%s", f.Message)
	}
	return c.skills[name].as + arguments
}

func (c *compiler) approval(s *Step, in *scope) string {
	question := c.python(s.Question, in)
	if v := s.Question; v != nil && (v.Map != nil || v.List != nil || v.Template == nil && !isText(v.Plain)) {
		c.add(v.Pos, "", "the question of step %s is no text", s.Name)
	}
	if s.Schema == nil {
		c.helpers["approve"] = true
		return "approve(" + question + ")"
	}
	c.helpers["answer"] = true
	return fmt.Sprintf("answer(%s, %s)", question, constantJSON(s.Schema))
}

// wait returns the call of the function that the config names.
func (c *compiler) wait(s *Step, in *scope) string {
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

func isText(v any) bool {
	_, ok := v.(string)
	return ok
}
