package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

func (r *reader) stepList(key Ref, n *yaml.Node) (steps []*Step) {
	items := r.list(key, n)
	if n.Kind == yaml.SequenceNode && len(items) == 0 {
		r.add(posOf(n), "", "%s has no step", key.Name)
	}
	for _, item := range items {
		if r.steps++; r.steps == maxSteps+1 {
			r.add(posOf(item), "divide it into several workflows", "the workflow has more than %d steps", maxSteps)
		}
		if r.steps <= maxSteps {
			steps = append(steps, r.step(item))
		}
	}
	return steps
}

// stepTypes has the keys of the config of each type of steps; those with a * are required.
var stepTypes = map[string]string{
	ToolCall:      "tool* arguments",
	CodeExecution: "code* variables",
	Skill:         "skill* arguments",
	Condition:     "if* then* else",
	Loop:          "steps* over as until max_iterations collect",
	Parallel:      "branches*",
	Approval:      "question* schema",
	SubWorkflow:   "workflow* inputs",
	Wait:          "sleep_for sleep_until wait_for timeout",
	Form:          "file* save_as* data profile ask ignore_scripts",
}

// withoutRetry are the types that are never tried again: their steps were tried already, a person
// has answered, or the time has passed.
var withoutRetry = []string{Condition, Parallel, Approval, Wait}

func (r *reader) step(n *yaml.Node) *Step {
	s := &Step{Pos: posOf(n)}
	var config *yaml.Node
	var retry, onError Ref
	r.read(n, "a step", keys{
		"name":   func(k Ref, n *yaml.Node) { ref := r.name(k, n); s.Name, s.NamePos = ref.Name, ref.Pos },
		"type":   func(k Ref, n *yaml.Node) { s.Type = r.choice(k, n, names(stepTypes)...) },
		"config": func(k Ref, n *yaml.Node) { config, s.ConfigPos = n, k.Pos },
		"depends_on": func(k Ref, n *yaml.Node) {
			s.DependsOn = r.refs(k, n)
			s.Free = n.Kind == yaml.SequenceNode && len(n.Content) == 0
		},
		"if":       func(k Ref, n *yaml.Node) { s.If = r.expression(k, n) },
		"on_error": func(k Ref, n *yaml.Node) { onError = k; r.onError(s, k, n) },
		"retry":    func(k Ref, n *yaml.Node) { retry = k; r.retry(s, n) },
		"timeout":  func(k Ref, n *yaml.Node) { s.Timeout, s.timeoutAt = r.duration(k, n), posOf(n) },
	}, "name", "type", "config")
	if !isName(s.Name) { // was reported
		s.unnamed, s.Name = true, fmt.Sprintf("step_in_line_%d_%d", s.Pos.Line, s.Pos.Column)
	}
	if s.OnError == Retry && s.Attempts == 0 {
		s.Attempts = 3
	}
	if slices.Contains(withoutRetry, s.Type) && s.Attempts > 0 {
		hint := ""
		if s.Type == Condition || s.Type == Parallel {
			hint = "set retry on the steps inside it"
		}
		r.add(cmp.Or(retry.Pos, onError.Pos), hint, "a step of type %s cannot be retried", s.Type)
	}
	if of := stepTypes[s.Type]; config != nil && of != "" {
		all, some, required := r.configKeys(s), keys{}, []string(nil)
		for _, key := range strings.Fields(of) {
			name, must := strings.CutSuffix(key, "*")
			if some[name] = all[name]; must {
				required = append(required, name)
			}
		}
		r.read(config, "config of a "+s.Type+" step", some, required...)
		checkConfig(&r.findings, s)
	}
	return s
}

// checkTimeout reports a time limit that has no effect in a run with a time limit; 0 means none.
func checkTimeout(f *findings, s *Step, limit time.Duration) {
	at := s.timeoutAt
	switch {
	case s.Timeout == 0:
	case s.Type == Wait:
		f.add(at, "set the timeout of wait_for in config", "a step of type wait has no time limit: the time in which it waits does "+
			"not count")
	case s.Type == Approval:
		f.add(at, "", "a step of type approval has no time limit: the time in which it waits does not count")
	case limit > 0 && s.Timeout >= limit:
		f.add(at, "", "the timeout of step %s is %s, and guardrails end the run after %s", s.Name, s.Timeout, limit)
	}
}

// checkConfig checks keys of a config that depend on each other.
func checkConfig(f *findings, s *Step) {
	switch {
	case s.Type == Wait:
		checkWait(f, s)
	case s.Type != Loop || s.Over != nil:
	case s.Until == nil:
		f.add(s.ConfigPos, "", "config of a loop step has neither over nor until")
	case s.Max == 0:
		f.add(s.Until.Pos, "add max_iterations: N", "the loop %s is unbounded: until may never be true", s.Name)
	}
}

// checkWait reports a wait for nothing, or for more than one thing.
func checkWait(f *findings, s *Step) {
	isTimeout := func(a Field) bool { return a.Name == "timeout" }
	kinds, timeout := slices.DeleteFunc(slices.Clone(s.Arguments), isTimeout), slices.IndexFunc(s.Arguments, isTimeout)
	switch {
	case len(kinds) == 0:
		f.add(s.ConfigPos, "", "config of a wait step has none of sleep_for, sleep_until and wait_for")
	case len(kinds) > 1:
		f.add(kinds[1].Pos, "write two steps", "config of a wait step has both %s and %s", kinds[0].Name, kinds[1].Name)
	case timeout >= 0 && kinds[0].Name != "wait_for":
		f.add(s.Arguments[timeout].Pos, "", "timeout conflicts with %s; it is the longest time of wait_for", kinds[0].Name)
	}
}

func (r *reader) onError(s *Step, k Ref, n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		s.OnError = Goto
		r.read(n, "on_error", keys{"goto": func(k Ref, n *yaml.Node) { s.Goto = r.name(k, n) }}, "goto")
		return
	}
	if s.OnError = r.choice(k, n, Stop, Skip, Retry, Goto); s.OnError == Goto {
		r.add(posOf(n), "write on_error: {goto: STEP}", "on_error goto has no step")
	}
}

func (r *reader) retry(s *Step, n *yaml.Node) {
	r.read(n, "retry", keys{
		"attempts": func(k Ref, n *yaml.Node) { s.Attempts = r.whole(k, n, 1, 100) },
		"backoff":  func(k Ref, n *yaml.Node) { s.Backoff = r.duration(k, n) },
	}, "attempts")
}

// configKeys returns the parsers of the keys of a config of any type.
func (r *reader) configKeys(s *Step) keys {
	s.As = "item"
	target := func(k Ref, n *yaml.Node) { s.Target = r.name(k, n) }
	fields := func(k Ref, n *yaml.Node) { s.Arguments = r.fields(k, n) }
	value := func(_ Ref, n *yaml.Node) *Value { return r.value(n) }
	argument := func(parse func(Ref, *yaml.Node) *Value) func(Ref, *yaml.Node) {
		return func(k Ref, n *yaml.Node) { s.Arguments = append(s.Arguments, Field{k.Name, k.Pos, parse(k, n)}) }
	}
	block := func(k Ref, n *yaml.Node) { s.Blocks = append(s.Blocks, Block{k.Name, r.stepList(k, n)}) }
	return keys{
		"tool":           func(k Ref, n *yaml.Node) { r.tool(s, k, n) },
		"skill":          target,
		"workflow":       target,
		"arguments":      fields,
		"inputs":         fields,
		"variables":      func(k Ref, n *yaml.Node) { s.Arguments = r.variables(k, n) },
		"code":           func(k Ref, n *yaml.Node) { r.code(s, k, n) },
		"if":             func(k Ref, n *yaml.Node) { s.Test = r.expression(k, n) },
		"then":           block,
		"else":           block,
		"steps":          block,
		"branches":       func(k Ref, n *yaml.Node) { r.branches(s, k, n) },
		"over":           func(_ Ref, n *yaml.Node) { s.Over = r.value(n) },
		"as":             func(k Ref, n *yaml.Node) { s.As = cmp.Or(validName(r.name(k, n).Name), s.As) },
		"until":          func(k Ref, n *yaml.Node) { s.Until = r.expression(k, n) },
		"max_iterations": func(k Ref, n *yaml.Node) { s.Max = r.whole(k, n, 1, 10_000_000) },
		"collect":        func(_ Ref, n *yaml.Node) { s.Collect = r.value(n) },
		"question":       func(_ Ref, n *yaml.Node) { s.Question = r.value(n) },
		"schema":         func(k Ref, n *yaml.Node) { s.Schema = r.schema(k, r.constant(n)) },
		"sleep_for":      argument(r.seconds),
		"sleep_until":    argument(r.instant),
		"wait_for":       argument(r.words),
		"timeout":        argument(r.seconds),
		"file":           argument(r.words),
		"save_as":        argument(r.words),
		"data":           argument(value),
		"profile":        argument(value),
		"ask":            argument(r.expression),
		"ignore_scripts": argument(r.expression),
	}
}

// validName returns a name, or "" if it is none.
func validName(name string) string {
	if isName(name) {
		return name
	}
	return ""
}

func (r *nodeReader) tool(s *Step, k Ref, n *yaml.Node) {
	s.Target = Ref{r.text(k, n), posOf(n)}
	if server, of := s.tool(); s.Target.Name != "" && (server == "" || of == "") {
		r.add(s.Target.Pos, "", "tool %.60q is not SERVER.TOOL", s.Target.Name)
	}
}

func (r *valueReader) code(s *Step, k Ref, n *yaml.Node) {
	s.Code, s.CodePos = r.text(k, n), posOf(n)
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		s.CodePos = Pos{s.CodePos.Line + 1, r.blockColumn(n)}
	}
}

func (r *valueReader) variables(k Ref, n *yaml.Node) []Field {
	return slices.DeleteFunc(r.fields(k, n), func(f Field) bool {
		if !isName(f.Name) {
			r.add(f.Pos, "", "%.60q cannot be a variable", f.Name)
		}
		return !isName(f.Name)
	})
}

func (r *reader) branches(s *Step, k Ref, n *yaml.Node) {
	for _, branch := range r.list(k, n) {
		s.Blocks = append(s.Blocks, Block{"branch", r.stepList(Ref{"a branch", posOf(branch)}, branch)})
	}
	if len(s.Blocks) < 2 {
		r.add(posOf(n), "", "branches has %d lists of steps; a parallel step has at least 2", len(s.Blocks))
	}
}
