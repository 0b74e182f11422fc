package workflow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
)

// Library finds what workflows refer to.
type Library struct {
	// Workflow returns the workflow of that name; nil means that there are none. The findings are
	// its own, if it is wrong; all are the names of those that exist.
	Workflow func(name string) (found *Workflow, findings []Finding, all []string)
	// Skills are the names of the skills; nil means that they are not checked.
	Skills []string
	// Skill returns the function of the skill with that name, if it is known; nil means that
	// arguments of skills are not checked.
	Skill func(name string) (pysource.Function, bool)
}

// Program is a compiled workflow.
type Program struct {
	Workflow *Workflow
	Code     string
	Lines    []Place // of the lines of Code
	// Expressions are those of the files, for a check of their syntax and names.
	Expressions []Expression
	// Parallel lists the steps that run at the same time. A step of the list runs with others only if
	// it says depends_on: [].
	Parallel []Finding
}

// Place is where a line of code comes from.
type Place struct {
	File string
	Pos  Pos
	Step *Step // nil if the line belongs to none
}

// Expression is an expression or the code of a step, as it is in the file.
type Expression struct {
	pycode.Part
	File string
	Pos  Pos
}

// maxCode limits the length of compiled code, as executions do.
const maxCode = 1 << 20

// Compile compiles a workflow. It returns no program if there are findings. Its work and memory are
// proportional to the workflow, to those that it calls, and to the code, which has at most 1 MiB.
func Compile(w *Workflow, lib Library) (*Program, []Finding) {
	p, found, _ := compile(context.Background(), w, lib, nil)
	if len(found) > 0 {
		return nil, found
	}
	return p, nil
}

// compile compiles until the context ends. It returns a program beside findings too, so that the
// others can be found, unless it is too long. Expressions and code that are not Python are omitted
// from it.
func compile(ctx context.Context, w *Workflow, lib Library, unparsable map[Place]bool) (*Program, []Finding, error) {
	c := newCompiler(w, lib)
	c.ended, c.unparsable = ctx.Err, unparsable
	c.program(w)
	p := c.finish(w)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if c.size > maxCode {
		p = nil
		c.add(w.Pos, "divide it into several workflows", "its code would have more than the %d bytes that are allowed", maxCode)
	}
	return p, arranged(c.found), nil
}

// arranged returns findings in the order of the files, each once.
func arranged(found []Finding) []Finding {
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
	return slices.CompactFunc(found, func(a, b Finding) bool { return a == b })
}

// line is a line of code.
type line struct {
	text  string
	place Place
}

// compiler writes the code of one workflow and of those that it calls.
type compiler struct {
	findings
	lib         Library
	callees     map[string]*callee
	ended       func() error // not nil after the context has ended
	size        int          // of all lines; those above maxCode are dropped
	lines       []line
	indent      int
	step        *Step // whose lines are written
	durable     bool  // steps are recorded one by one
	taken       map[string]bool
	helpers     map[string]bool
	skills      map[string]*skill
	unparsable  map[Place]bool    // expressions and code
	notes       []Finding         // about what runs in parallel
	calls       []string          // names of the workflows that are being compiled, outermost first
	compiled    map[string]string // functions of workflows
	functions   []line            // of workflows
	expressions []Expression
	servers     bool // the code calls tools
}

func newCompiler(w *Workflow, lib Library) *compiler {
	c := &compiler{
		findings: findings{file: w.File}, lib: lib, ended: func() error { return nil }, durable: true,
		callees: map[string]*callee{}, taken: map[string]bool{}, helpers: map[string]bool{}, skills: map[string]*skill{}, compiled: map[string]string{},
	}
	for _, name := range reservedNames {
		c.taken[name] = true
	}
	return c
}

// stopped reports whether more code would be in vain.
func (c *compiler) stopped() bool { return c.size > maxCode || c.ended() != nil }

// note records what runs in parallel.
func note(c *compiler, at Pos, format string, args ...any) {
	if len(c.notes) < maxFindings {
		c.notes = append(c.notes, Finding{File: c.file, Pos: at, Message: fmt.Sprintf(format, args...)})
	}
}

// place returns the place of an expression or of code.
func place(file string, at Pos) Place { return Place{File: file, Pos: at} }

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
	if c.stopped() {
		return
	}
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
	c.addLine(text, at)
}

// addLine writes a line as it is.
func (c *compiler) addLine(text string, at Place) {
	if c.size += len(text) + 1; c.size <= maxCode {
		c.lines = append(c.lines, line{text, at})
	}
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
	top := &scope{inputs: w.InputNames, anyInput: w.anyInput, hidden: map[string]string{}}
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
		if !strings.Contains(p.Expr, "error") {
			return
		}
		for _, r := range references(p.Expr, isSteps) {
			if v := s.steps[r.name]; v != nil {
				v.wantsError = true
			}
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
	c.checkDepends(w.Steps, seen)
}

func (c *compiler) checkDepends(steps []*Step, everywhere map[string]Pos) {
	here, list := indexOf(steps), stepNames(steps)
	for _, s := range steps {
		for _, r := range s.DependsOn {
			if _, found := here[r.Name]; found || !isName(r.Name) {
				continue
			}
			if _, elsewhere := everywhere[r.Name]; elsewhere {
				c.add(r.Pos, "name a step of the same list", "step %s depends on %s, which is in another list of steps", s.Name, r.Name)
			} else {
				c.add(r.Pos, c.nearest(r.Name, list, ""), "there is no step %.60q", r.Name)
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
		return layout(c, c.mapping(w.Outputs, top))
	}
	return top.last(w.Steps)
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
	p := &Program{Workflow: w, Expressions: c.expressions, Parallel: c.notes}
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
