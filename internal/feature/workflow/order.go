package workflow

import (
	"slices"
	"strings"
)

// segment is a part of a list of steps. A segment begins with the list, with the target of a goto,
// and after a step with goto, which is a segment by itself: a step behind it in the file does not
// run before its outcome is known.
type segment struct {
	target string    // "" if it begins with no target
	levels [][]*Step // the steps of a level run in parallel
}

// order arranges a list of steps: in the order of the file, except where dependencies or
// depends_on: [] require another order.
func order(f *findings, steps []*Step) (segments []segment) {
	targets, barriers := map[string]bool{}, map[int]bool{}
	for i, s := range steps {
		if s.OnError == Goto && checkGoto(f, steps, i) {
			targets[s.Goto.Name] = true
			barriers[i], barriers[i+1] = true, true
		}
	}
	start := 0
	for i := 1; i <= len(steps); i++ {
		if i < len(steps) && !targets[steps[i].Name] && !barriers[i] {
			continue
		}
		seg := segment{levels: levelsOf(f, steps, start, i)}
		if targets[steps[start].Name] {
			seg.target = steps[start].Name
		}
		segments = append(segments, seg)
		start = i
	}
	return segments
}

// checkGoto reports whether the goto of steps[i] names a later step.
func checkGoto(f *findings, steps []*Step, i int) bool {
	to := steps[i].Goto
	at := slices.IndexFunc(steps, func(s *Step) bool { return s.Name == to.Name })
	switch {
	case !isName(to.Name): // the reader reported it
		return false
	case at < 0:
		f.add(to.Pos, f.nearest(to.Name, stepNames(steps[i+1:]), "no step follows"),
			"goto names %.60q, which is no later step of the same list", to.Name)
	case at <= i:
		f.add(to.Pos, "repeat steps with a loop", "goto names %.60q, which is not after step %s", to.Name, steps[i].Name)
	}
	return at > i
}

func stepNames(steps []*Step) (all []string) {
	for _, s := range steps {
		all = append(all, s.Name)
	}
	return all
}

// levelsOf arranges steps[start:end]. Steps before start have ended. A step waits for those that it
// needs and, unless it has depends_on: [], for all that come before it.
func levelsOf(f *findings, steps []*Step, start, end int) (levels [][]*Step) {
	rest, index := slices.Clone(steps[start:end]), indexOf(steps)
	needs, neededBy := map[*Step][]*Step{}, map[*Step][]*Step{}
	waits := map[*Step]int{} // for how many steps that have no level
	for _, s := range rest {
		for _, name := range dependencies(s) {
			i, here := index[name]
			switch {
			case !here || i < start:
			case i >= end:
				f.add(s.NamePos, "move it behind that step", "step %s needs step %s, which comes after a step with goto, or its target",
					s.Name, name)
			default:
				o := steps[i]
				needs[s], neededBy[o] = append(needs[s], o), append(neededBy[o], s)
				waits[s]++
			}
		}
	}
	level := map[*Step]int{}
	for len(rest) > 0 {
		i := slices.IndexFunc(rest, func(s *Step) bool { return waits[s] == 0 })
		if i < 0 {
			reportCycle(f, rest, needs)
			i = 0 // check the others
		}
		s := rest[i]
		at := len(levels)
		if s.Free {
			at = 0
			for _, o := range needs[s] {
				at = max(at, level[o]+1)
			}
		}
		if at == len(levels) {
			levels = append(levels, nil)
		}
		levels[at], level[s] = append(levels[at], s), at
		for _, o := range neededBy[s] {
			waits[o]--
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return levels
}

// indexOf returns the positions of steps by name.
func indexOf(steps []*Step) map[string]int {
	index := map[string]int{}
	for i, s := range steps {
		if _, twice := index[s.Name]; !twice {
			index[s.Name] = i
		}
	}
	return index
}

// dependencies returns the names of the steps that s refers to or depends on, each once, except
// those inside.
func dependencies(s *Step) (list []string) {
	known := map[string]bool{}
	for _, b := range s.Blocks {
		all(b.Steps, func(i *Step) { known[i.Name] = true })
	}
	add := func(name string) {
		if !known[name] {
			known[name] = true
			list = append(list, name)
		}
	}
	all([]*Step{s}, func(i *Step) {
		for _, r := range i.DependsOn {
			add(r.Name)
		}
		values := []*Value{i.If, i.Test, i.Over, i.Question, i.Until, i.Collect}
		for _, f := range i.Arguments {
			values = append(values, f.Value)
		}
		for _, v := range values {
			v.expressions(func(p Part) {
				for _, m := range stepName().FindAllStringSubmatch(p.Expr, -1) {
					add(m[1])
				}
			})
		}
	})
	return list
}

// reportCycle reports one cycle among steps that wait for each other.
func reportCycle(f *findings, blocked []*Step, needs map[*Step][]*Step) {
	var path []*Step
	at := blocked[0]
	for !slices.Contains(path, at) {
		path = append(path, at)
		i := slices.IndexFunc(needs[at], func(o *Step) bool { return slices.Contains(blocked, o) })
		at = needs[at][i]
	}
	path = path[slices.Index(path, at):]
	first := slices.MinFunc(path, func(a, b *Step) int { return a.NamePos.Line - b.NamePos.Line })
	i := slices.Index(path, first)
	path = append(path[i:], path[:i]...)
	if len(path) == 1 {
		f.add(first.NamePos, "", "step %s depends on itself", first.Name)
		return
	}
	f.add(first.NamePos, "remove one of the references or depends_on", "steps depend on each other: %s -> %s",
		strings.Join(stepNames(path), " -> "), first.Name)
}
