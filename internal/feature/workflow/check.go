package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// maxFindings limits the findings of one file. Hints are searched for each of them.
const maxFindings = 100

// findings collects errors in a file.
type findings struct {
	file  string
	found []Finding
}

// full reports whether further findings are dropped.
func (f *findings) full() bool { return len(f.found) >= maxFindings }

func (f *findings) add(at Pos, hint, format string, args ...any) {
	if !f.full() {
		f.found = append(f.found, Finding{File: f.file, Pos: at, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
}

// nearest does not search while further findings are dropped.
func (f *findings) nearest(name string, all []string, none string) string {
	if f.full() {
		return ""
	}
	return nearest(name, all, none)
}

// nearest returns a hint with the name that is similar, or with all of them; none if there are none.
func nearest(name string, all []string, none string) string {
	near := fault.Nearest(name, all, 1)
	switch {
	case len(all) == 0:
		return none
	case len(near) > 0:
		return "did you mean " + near[0] + "?"
	case len(all) > 20:
		return ""
	}
	return "there are " + strings.Join(all, ", ")
}

// arranged returns findings in the order of the files, each once.
func arranged(found []Finding) []Finding {
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
	return slices.CompactFunc(found, func(a, b Finding) bool { return a == b })
}

// checkNames reports names that two steps have, and depends_on that names no step of the list.
func checkNames(f *findings, w *Workflow) {
	seen := map[string]Pos{}
	all(w.Steps, func(s *Step) {
		if first, twice := seen[s.Name]; twice {
			f.add(s.NamePos, "", "there are two steps %.60q; the other one is in line %d", s.Name, first.Line)
		}
		seen[s.Name] = s.NamePos
	})
	checkDepends(f, w.Steps, seen)
}

func checkDepends(f *findings, steps []*Step, everywhere map[string]Pos) {
	here, list := indexOf(steps), stepNames(steps)
	for _, s := range steps {
		for _, r := range s.DependsOn {
			if _, found := here[r.Name]; found || !isName(r.Name) {
				continue
			}
			if _, elsewhere := everywhere[r.Name]; elsewhere {
				f.add(r.Pos, "name a step of the same list", "step %s depends on %s, which is in another list of steps", s.Name, r.Name)
			} else {
				f.add(r.Pos, f.nearest(r.Name, list, ""), "there is no step %.60q", r.Name)
			}
		}
		for _, b := range s.Blocks {
			checkDepends(f, b.Steps, everywhere)
		}
	}
}

// checkToolName reports that an exported workflow has the name of a tool.
func checkToolName(w *Workflow, isTool func(name string) bool) []Finding {
	if !w.Export || !isTool(w.Name) {
		return nil
	}
	return []Finding{{File: w.File, Pos: w.namePos, Message: fmt.Sprintf("Sandpiper has a tool %s", w.Name),
		Hint: "give the exported workflow another name"}}
}
