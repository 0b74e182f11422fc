package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// Mermaid returns a flowchart of a workflow in the language of Mermaid.
func (w *Workflow) Mermaid() string {
	g := &graph{}
	g.line("flowchart TD")
	g.line(`  start(["%s"])`, mermaidText(w.Name))
	g.list(w.Steps, "start", 1)
	return g.b.String()
}

type graph struct{ b strings.Builder }

func (g *graph) line(format string, args ...any) { fmt.Fprintf(&g.b, format+"\n", args...) }

// mermaidText escapes text in a quoted label.
func mermaidText(text string) string {
	return strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", " ", "#", "#35;", ";", "#59;").Replace(text)
}

// list draws steps; those that wait for none come after the node from. A step comes after those that it
// needs and, unless it has depends_on: [], after those of the level before.
func (g *graph) list(steps []*Step, from string, depth int) {
	indent, index := strings.Repeat("  ", depth), indexOf(steps)
	needs, before := map[*Step][]string{}, []string(nil)
	for _, seg := range order(&findings{}, steps) {
		for i, level := range seg.levels {
			for _, s := range level {
				if needs[s] = dependencies(s); !s.Free || i == 0 {
					needs[s] = append(needs[s], before...)
				}
			}
			before = stepNames(level)
		}
	}
	for _, s := range steps {
		g.step(s, depth)
	}
	for _, s := range steps {
		label := ""
		if s.If != nil {
			label = "|if|"
		}
		slices.Sort(needs[s])
		for _, name := range slices.Compact(needs[s]) {
			if i, here := index[name]; here {
				g.line("%s%s -->%s %s", indent, steps[i].node(), label, s.node())
			}
		}
		needsNone := !slices.ContainsFunc(needs[s], func(name string) bool { _, here := index[name]; return here })
		if needsNone && from != "" {
			g.line("%s%s -->%s %s", indent, from, label, s.node())
		}
		if i, here := index[s.Goto.Name]; here && s.OnError == Goto {
			g.line("%s%s -.->|error| %s", indent, s.node(), steps[i].node())
		}
	}
}

// node returns the name of a step's node. Some words are keywords of Mermaid.
func (s *Step) node() string { return "step_" + s.Name }

// shapes are those of nodes that are no rectangles.
var shapes = map[string]string{Approval: `{{"%s"}}`, SubWorkflow: `[["%s"]]`, Wait: `(["%s"])`, Form: `[/"%s"/]`}

// step draws a step with those inside it.
func (g *graph) step(s *Step, depth int) {
	indent := strings.Repeat("  ", depth)
	shape, ok := shapes[s.Type]
	if !ok {
		shape = `["%s"]`
	}
	label := s.Name + ": " + s.Type
	if s.Target.Name != "" {
		label = s.Name + ": " + s.Target.Name
	}
	if len(s.Blocks) == 0 {
		g.line("%s%s"+shape, indent, s.node(), mermaidText(label))
		return
	}
	g.line(`%ssubgraph %s["%s"]`, indent, s.node(), mermaidText(label))
	for i, b := range s.Blocks {
		name := b.Name
		if s.Type == Parallel {
			name = fmt.Sprintf("branch %d", i+1)
		}
		if name == "steps" {
			g.list(b.Steps, "", depth+1)
			continue
		}
		g.line(`%s  subgraph %s_%d["%s"]`, indent, s.node(), i+1, name)
		g.list(b.Steps, "", depth+2)
		g.line("%s  end", indent)
	}
	g.line("%send", indent)
}
