package workflow

import "strings"

// scope has the names that an expression can refer to.
type scope struct {
	outer  *scope
	steps  map[string]*variable // steps of a list, by name
	loop   string               // variable of a loop; "" if it is none
	inputs []string             // of the workflow; in the outermost scope
	// anyInput means that the inputs are not known; in the outermost scope.
	anyInput bool
	hidden   map[string]string // steps that are inside others, with those; in the outermost scope
}

// variable has the names of the variables of a step in the code.
type variable struct {
	step       *Step
	name       string // of the result
	error      string // of the text of its error
	wantsError bool   // an expression refers to its error
}

// topScope returns the scope of the steps of a workflow.
func topScope(names *output, w *Workflow) *scope {
	top := &scope{inputs: w.InputNames, anyInput: w.anyInput, hidden: map[string]string{}}
	for _, s := range w.Steps {
		for _, b := range s.Blocks {
			all(b.Steps, func(inner *Step) { top.hidden[inner.Name] = s.Name })
		}
	}
	in := top.inner(names, w.Steps)
	for _, f := range w.Outputs {
		in.markErrors(f.Value)
	}
	in.keepErrors()
	return in
}

// inner returns the scope of a list of steps inside s.
func (s *scope) inner(names *output, steps []*Step) *scope {
	in := &scope{outer: s, steps: map[string]*variable{}}
	for _, s := range steps {
		name := names.name(s.Name)
		in.steps[s.Name] = &variable{step: s, name: name, error: names.name(s.Name + "_error")}
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

func (s *scope) top() *scope {
	for s.outer != nil {
		s = s.outer
	}
	return s
}

// last returns the variable of the result of the last of some steps of a scope.
func (s *scope) last(steps []*Step) string {
	if len(steps) == 0 { // the reader reported it
		return "None"
	}
	return s.steps[steps[len(steps)-1].Name].name
}

func (s *scope) find(step string) *variable {
	for ; s != nil; s = s.outer {
		if v := s.steps[step]; v != nil {
			return v
		}
	}
	return nil
}

// visible returns the names of the steps that can be referred to.
func (s *scope) visible() (all []string) {
	for ; s != nil; s = s.outer {
		for _, name := range names(s.steps) {
			if of := s.steps[name].step; of == nil || !of.unnamed {
				all = append(all, name)
			}
		}
	}
	return all
}

// mentioned returns the names in Python that are those of visible steps.
func (s *scope) mentioned(source string) []string {
	found := map[string]bool{}
	for t := range eachToken(source) {
		if t.kind == nameToken && s.find(t.text) != nil {
			found[t.text] = true
		}
	}
	return names(found)
}

// isRoot reports whether name is steps, inputs or a variable of a loop.
func (s *scope) isRoot(name string) bool {
	for in := s; in != nil; in = in.outer {
		if name == in.loop && name != "" {
			return true
		}
	}
	return name == "steps" || name == "inputs"
}
