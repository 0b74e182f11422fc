package workflow

import (
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// stepName matches the uses of steps in an expression, also those in a string: a step then waits for
// another one in vain.
var stepName = lazyregexp.New(`\bsteps\s*\.\s*([A-Za-z]\w*)`)

// topScope adds the scope of the steps of a workflow, and returns its number.
func (w *valueWriter) topScope(of *Workflow) int {
	top := pycode.Scope{Outer: -1, Steps: given(of.Steps), Inputs: of.InputNames, Hidden: map[string]string{}}
	if !of.anyInput {
		top.Inputs = append([]string{}, of.InputNames...)
	}
	for _, s := range of.Steps {
		for _, b := range s.Blocks {
			all(b.Steps, func(inner *Step) { top.Hidden[inner.Name] = s.Name })
		}
	}
	return w.scope(top)
}

// scope adds a scope, and returns its number.
func (w *valueWriter) scope(s pycode.Scope) int {
	w.scopes = append(w.scopes, s)
	return len(w.scopes) - 1
}

// given returns the names of steps that are those of the file.
func given(steps []*Step) []string {
	return stepNames(slices.DeleteFunc(slices.Clone(steps), func(s *Step) bool { return s.unnamed }))
}

// last returns the Python of the result of the last of some steps.
func last(steps []*Step) string {
	if len(steps) == 0 { // the reader reported it
		return "None"
	}
	return "steps." + steps[len(steps)-1].Name + ".result"
}

// isName reports whether text is an identifier that is written in ASCII.
func isName(text string) bool { return len(text) <= maxName && identifier().MatchString(text) }

var identifier = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_]*$`)

// maxName limits the bytes of a name, which is part of the name of a file.
const maxName = 128
