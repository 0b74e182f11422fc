package workflow

import (
	"context"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/preflight"
)

// examine checks a program in a sandbox, with the tools that the tenant has. It reports the
// positions in the files of its workflows, and the expressions and code that have to be replaced, by their
// places. If some are not Python, whole is false: the uses of tools were not checked.
func (p *Program) examine(
	ctx context.Context, c pycode.Checker, h *home.Home, subset string,
) (found []Finding, replaced map[Place]string, whole bool, err error) {
	d := pycode.Draft{Code: p.Code, Scopes: p.scopes, Subset: subset, Tools: p.Workflow.Guardrails.Tools}
	for _, e := range p.Expressions {
		d.Parts = append(d.Parts, e.Part)
	}
	e, err := c.Examine(ctx, h, d)
	if err != nil {
		return nil, nil, false, err
	}
	replaced, whole = map[Place]string{}, true
	for _, k := range e.Keyed {
		if k.Part >= 0 && k.Part < len(p.Expressions) { // the sandbox is not trusted
			of := p.Expressions[k.Part]
			replaced[place(of.File, of.Pos)] = k.Source
		}
	}
	for _, problem := range e.Parts {
		if problem.Part < 0 || problem.Part >= len(p.Expressions) {
			continue
		}
		of := p.Expressions[problem.Part]
		at := Pos{of.Pos.Line + problem.Line - 1, problem.Column}
		if problem.Line == 1 || of.Code {
			at.Column += of.Pos.Column - 1
		}
		found = append(found, Finding{File: of.File, Pos: at, Message: problem.Message, Hint: problem.Hint})
		if problem.Syntax {
			replaced[place(of.File, of.Pos)], whole = notKnown, false
		}
	}
	if e.Error != nil {
		place := p.place(e.Error.Line)
		found = append(found, Finding{File: place.File, Pos: place.Pos, Message: "the code of the step is not Python: " + e.Error.Message})
	}
	for _, f := range e.Tools {
		place := p.place(f.Line)
		message, hint, _ := strings.Cut(f.Text, "; ")
		found = append(found, Finding{File: place.File, Pos: positionOf(place, f), Message: message, Hint: hint})
	}
	return arranged(found), replaced, whole, nil
}

// place returns where a line of code comes from. Lines count from 1.
func (p *Program) place(line int) Place {
	if line < 1 || line > len(p.Lines) {
		return Place{File: p.Workflow.File, Pos: p.Workflow.Pos}
	}
	place := p.Lines[line-1]
	if place.Pos.Line == 0 {
		place.Pos = p.Workflow.Pos
	}
	return place
}

// positionOf returns the position of what a finding is about: an argument, or the name of the tool.
func positionOf(place Place, f preflight.Finding) Pos {
	s := place.Step
	if s == nil || s.Type != ToolCall {
		return place.Pos
	}
	var wire []string
	for _, field := range s.Arguments {
		wire = append(wire, field.Name)
	}
	python := tool.ParamNames(wire)
	for _, field := range s.Arguments {
		if f.Argument == field.Name || f.Argument != "" && f.Argument == python[field.Name] {
			return field.Pos
		}
	}
	return s.Target.Pos
}
