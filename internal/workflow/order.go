package workflow

import (
	"slices"
	"strings"
)

// segment is a part of a list of steps that begins with the target of a goto, or with the list.
type segment struct {
	target string    // "" for the first
	levels [][]*Step // the steps of a level run in parallel
}

// order arranges a list of steps by their dependencies.
func (c *compiler) order(steps []*Step) (segments []segment) {
	targets := map[string]bool{}
	for i, s := range steps {
		if s.OnError == Goto && c.checkGoto(steps, i) {
			targets[s.Goto.Name] = true
		}
	}
	start := 0
	for i := 1; i <= len(steps); i++ {
		if i < len(steps) && !targets[steps[i].Name] {
			continue
		}
		seg := segment{levels: c.levels(steps, start, i)}
		if start > 0 {
			seg.target = steps[start].Name
		}
		segments = append(segments, seg)
		start = i
	}
	return segments
}

// checkGoto reports whether the goto of steps[i] names a later step.
func (c *compiler) checkGoto(steps []*Step, i int) bool {
	to := steps[i].Goto
	at := slices.IndexFunc(steps, func(s *Step) bool { return s.Name == to.Name })
	switch {
	case to.Name == "":
		return false
	case at < 0:
		c.add(to.Pos, nearestOrNone(to.Name, stepNames(steps[i+1:]), "no step follows"), "goto names %.60q, which is no later step of the same list", to.Name)
	case at <= i:
		c.add(to.Pos, "repeat steps with a loop", "goto names %.60q, which is not after step %s", to.Name, steps[i].Name)
	}
	return at > i
}

func stepNames(steps []*Step) (all []string) {
	for _, s := range steps {
		all = append(all, s.Name)
	}
	return all
}

// levels arranges steps[start:end]. Steps before start have ended.
func (c *compiler) levels(steps []*Step, start, end int) (levels [][]*Step) {
	list, earlier := steps[start:end], stepNames(steps[:start])
	needs := map[*Step][]*Step{}
	for _, s := range list {
		for _, name := range c.dependencies(s) {
			i := slices.IndexFunc(steps, func(o *Step) bool { return o.Name == name })
			switch {
			case i < 0 || slices.Contains(earlier, name):
			case i >= end:
				c.add(s.NamePos, "move it after the target of goto", "step %s needs step %s, which runs after the target of a goto", s.Name, name)
			default:
				needs[s] = append(needs[s], steps[i])
			}
		}
	}
	placed := map[*Step]bool{}
	for rest := list; len(rest) > 0; {
		var level, blocked []*Step
		for _, s := range rest {
			if slices.ContainsFunc(needs[s], func(o *Step) bool { return !placed[o] }) {
				blocked = append(blocked, s)
			} else {
				level = append(level, s)
			}
		}
		if len(level) == 0 {
			c.reportCycle(blocked, needs)
			return levels
		}
		for _, s := range level {
			placed[s] = true
		}
		levels, rest = append(levels, level), blocked
	}
	return levels
}

// dependencies returns the names of the steps that s refers to or depends on, except those inside.
func (c *compiler) dependencies(s *Step) (list []string) {
	inside := map[string]bool{}
	for _, b := range s.Blocks {
		all(b.Steps, func(i *Step) { inside[i.Name] = true })
	}
	all([]*Step{s}, func(i *Step) {
		for _, r := range i.DependsOn {
			list = append(list, r.Name)
		}
		outer, inner := i.values()
		for _, v := range append(outer, inner...) {
			v.expressions(func(p Part) {
				for _, r := range references(p.Expr, func(n string) bool { return n == "steps" }) {
					list = append(list, r.name)
				}
			})
		}
	})
	return slices.DeleteFunc(list, func(name string) bool { return inside[name] })
}

// reportCycle reports one cycle among steps that wait for each other.
func (c *compiler) reportCycle(blocked []*Step, needs map[*Step][]*Step) {
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
		c.add(first.NamePos, "", "step %s depends on itself", first.Name)
		return
	}
	c.add(first.NamePos, "remove one of the references or depends_on", "steps depend on each other: %s -> %s", strings.Join(stepNames(path), " -> "), first.Name)
}
