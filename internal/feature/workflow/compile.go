package workflow

import (
	"context"
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
	scopes      []pycode.Scope
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
// others can be found, unless it is too long. Expressions and code of some places are replaced in it.
func compile(ctx context.Context, w *Workflow, lib Library, replaced map[Place]string) (*Program, []Finding, error) {
	c := newCompiler(w, lib)
	c.ended, c.replaced = ctx.Err, replaced
	c.reserve(w)
	result := c.body(w)
	c.write("")
	c.write("result = %s", result)
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

// compiler writes the code of one workflow and of those that it calls.
type compiler struct {
	callWriter
	notes     findings          // about what runs in parallel
	durable   bool              // steps are recorded one by one
	compiled  map[string]string // functions of workflows
	functions []line            // of workflows
}

func newCompiler(w *Workflow, lib Library) *compiler {
	c := &compiler{durable: true, compiled: map[string]string{}}
	c.lib, c.callees, c.skills = lib, map[string]*callee{}, map[string]signature{}
	c.taken = map[string]bool{}
	c.setFile(w.File)
	return c
}

// setFile sets the file whose steps are written.
func (c *compiler) setFile(name string) {
	c.output.file, c.findings.file, c.notes.file = name, name, name
}

// place returns the place of an expression or of code.
func place(file string, at Pos) Place { return Place{File: file, Pos: at} }

// body writes the steps of a workflow, and returns the Python of its result.
func (c *compiler) body(w *Workflow) string {
	checkNames(&c.findings, w)
	top := c.topScope(w)
	c.write("")
	c.write("steps, inputs = workflow.begin(inputs)")
	c.list(w.Steps, top)
	if len(w.Outputs) > 0 {
		return c.mapping(w.Outputs, top)
	}
	return last(w.Steps)
}

// finish returns the program, with the helpers that the code uses.
func (c *compiler) finish(w *Workflow) *Program {
	body := c.written
	c.written = nil
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
	c.written = append(append(c.written, c.functions...), body...)
	p := &Program{Workflow: w, Expressions: c.expressions, scopes: c.scopes, Parallel: c.notes.found}
	var code strings.Builder
	for _, l := range c.written {
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
