package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
)

// Library finds what workflows refer to.
type Library struct {
	// Workflow returns the workflow of that name; nil means that there are none. The findings are
	// its own, if it is wrong; all are the names of those that exist.
	Workflow func(name string) (found *Workflow, findings []Finding, all []string)
	// Skills are the names of the skills; nil means that they are not checked.
	Skills []string
}

// Program is a compiled workflow.
type Program struct {
	Workflow *Workflow
	Code     string
	Lines    []Place // of the lines of Code
	// Expressions are those of the files, for a check of their syntax and names.
	Expressions []Expression
}

// Place is where a line of code comes from.
type Place struct {
	File string
	Pos  Pos
	Step *Step // nil if the line belongs to none
}

// Expression is an expression or the code of a step, as it is in the file.
type Expression struct {
	execution.Part
	File string
	Pos  Pos
}

// maxCode limits the length of compiled code, as executions do.
const maxCode = 1 << 20

// Compile compiles a workflow. It returns no program if there are findings.
func Compile(w *Workflow, lib Library) (*Program, []Finding) {
	c := newCompiler(w, lib)
	c.program(w)
	p := c.finish(w)
	if len(c.found) == 0 && len(p.Code) > maxCode {
		c.add(w.Pos, "divide it into several workflows", "its code would have %d bytes; at most %d are allowed", len(p.Code), maxCode)
	}
	if len(c.found) > 0 {
		slices.SortStableFunc(c.found, func(a, b Finding) int {
			return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
		})
		return nil, slices.CompactFunc(c.found, func(a, b Finding) bool { return a == b })
	}
	return p, nil
}

// line is a line of code.
type line struct {
	text  string
	place Place
}

// compiler writes the code of one workflow and of those that it calls.
type compiler struct {
	lib         Library
	file        string
	found       []Finding
	lines       []line
	indent      int
	step        *Step // whose lines are written
	durable     bool  // steps are recorded one by one
	taken       map[string]bool
	helpers     map[string]bool
	skills      map[string]string // their names in the code
	calls       []string          // names of the workflows that are being compiled, outermost first
	compiled    map[string]string // functions of workflows
	functions   []line            // of workflows
	expressions []Expression
	servers     bool // the code calls tools
}

func newCompiler(w *Workflow, lib Library) *compiler {
	c := &compiler{lib: lib, file: w.File, durable: true, taken: map[string]bool{}, helpers: map[string]bool{}, skills: map[string]string{}, compiled: map[string]string{}}
	for _, name := range reservedNames {
		c.taken[name] = true
	}
	return c
}

func (c *compiler) add(at Pos, hint, format string, args ...any) {
	c.found = append(c.found, Finding{File: c.file, Pos: at, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// name returns a variable that is not used yet, similar to want.
func (c *compiler) name(want string) string {
	name := want
	for i := 2; c.taken[name]; i++ {
		if name = want + "_"; i > 2 {
			name = fmt.Sprintf("%s_%d", want, i-1)
		}
	}
	c.taken[name] = true
	return name
}

// write writes lines of code. A format without args is the text itself.
func (c *compiler) write(format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	for _, part := range strings.Split(text, "\n") {
		c.writeAt(part, Place{})
	}
}

func (c *compiler) writeAt(text string, at Place) {
	if at.File == "" {
		at = Place{File: c.file}
		if c.step != nil {
			at.Pos, at.Step = c.step.Pos, c.step
		}
	}
	if text == "" {
		if n := len(c.lines); n == 0 || c.lines[n-1].text == "" || strings.HasSuffix(c.lines[n-1].text, ":") {
			return
		}
	} else {
		text = strings.Repeat("    ", c.indent) + text
	}
	c.lines = append(c.lines, line{text, at})
}

// within writes what body writes, indented.
func (c *compiler) within(body func()) {
	c.indent++
	body()
	c.indent--
}

// program writes the steps of a workflow and its result.
func (c *compiler) program(w *Workflow) {
	top := c.topScope(w)
	c.list(w.Steps, top)
	c.step = nil
	c.write("")
	c.write("result = %s", c.result(w, top))
}

// topScope returns the scope of the steps of a workflow.
func (c *compiler) topScope(w *Workflow) *scope {
	top := &scope{inputs: w.InputNames, hidden: map[string]string{}}
	c.checkNames(w)
	for _, s := range w.Steps {
		for _, b := range s.Blocks {
			all(b.Steps, func(inner *Step) { top.hidden[inner.Name] = s.Name })
		}
	}
	in := c.inner(top, w.Steps)
	for _, f := range w.Outputs {
		in.markErrors(f.Value)
	}
	in.keepErrors()
	return in
}

// inner returns the scope of a list of steps inside outer.
func (c *compiler) inner(outer *scope, steps []*Step) *scope {
	in := &scope{outer: outer, steps: map[string]*variable{}}
	for _, s := range steps {
		name := c.name(s.Name)
		in.steps[s.Name] = &variable{step: s, name: name, error: c.name(s.Name + "_error")}
	}
	all(steps, func(s *Step) {
		outer, inner := s.values()
		for _, v := range append(outer, inner...) {
			in.markErrors(v)
		}
	})
	in.keepErrors()
	return in
}

// markErrors finds the steps to whose error a value refers, before their code is written.
func (s *scope) markErrors(value *Value) {
	value.expressions(func(p Part) {
		for name, v := range s.steps {
			v.wantsError = v.wantsError || strings.Contains(p.Expr, name) && strings.Contains(p.Expr, "error")
		}
	})
}

// keepErrors keeps the errors of steps that continue after one.
func (s *scope) keepErrors() {
	for _, v := range s.steps {
		v.wantsError = v.wantsError && (v.step.OnError == Skip || v.step.OnError == Goto)
	}
}

// checkNames reports names that two steps have, and depends_on that names no step of the list.
func (c *compiler) checkNames(w *Workflow) {
	seen := map[string]Pos{}
	all(w.Steps, func(s *Step) {
		if first, twice := seen[s.Name]; twice {
			c.add(s.NamePos, "", "there are two steps %.60q; the other one is in line %d", s.Name, first.Line)
		}
		seen[s.Name] = s.NamePos
	})
	c.checkDepends(w.Steps, names(seen))
}

func (c *compiler) checkDepends(steps []*Step, everywhere []string) {
	here := stepNames(steps)
	for _, s := range steps {
		for _, r := range s.DependsOn {
			switch {
			case r.Name == "" || slices.Contains(here, r.Name):
			case slices.Contains(everywhere, r.Name):
				c.add(r.Pos, "name a step of the same list", "step %s depends on %s, which is in another list of steps", s.Name, r.Name)
			default:
				c.add(r.Pos, nearestOrNone(r.Name, here, ""), "there is no step %.60q", r.Name)
			}
		}
		for _, b := range s.Blocks {
			c.checkDepends(b.Steps, everywhere)
		}
	}
}

// result returns the Python of the result of a workflow.
func (c *compiler) result(w *Workflow, top *scope) string {
	if len(w.Outputs) > 0 {
		return c.mapping(w.Outputs, top)
	}
	return top.steps[w.Steps[len(w.Steps)-1].Name].name
}

// finish returns the program, with the helpers that the code uses.
func (c *compiler) finish(w *Workflow) *Program {
	body := c.lines
	c.lines, c.step = nil, nil
	c.write("# workflow %s", w.Name)
	if w.Version != "" {
		c.write("# version %s", oneLine(w.Version))
	}
	for _, text := range strings.Split(strings.TrimSpace(w.Description), "\n") {
		if text != "" {
			c.write("# %s", oneLine(text))
		}
	}
	c.header()
	c.lines = append(c.lines, c.functions...)
	c.lines = append(c.lines, body...)
	p := &Program{Workflow: w, Expressions: c.expressions}
	var code strings.Builder
	for _, l := range c.lines {
		code.WriteString(l.text + "\n")
		p.Lines = append(p.Lines, l.place)
	}
	p.Code = code.String()
	return p
}

// oneLine replaces characters that would end a comment.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, text)
}
