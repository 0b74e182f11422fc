package workflow

import (
	"fmt"
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

// list draws steps; those that wait for none come after the node from.
func (g *graph) list(steps []*Step, from string, depth int) {
	indent := strings.Repeat("  ", depth)
	index, after := indexOf(steps), predecessors(steps)
	for _, s := range steps {
		g.step(s, depth)
	}
	for _, s := range steps {
		needs := after[s]
		label := ""
		if s.If != nil {
			label = "|if|"
		}
		if len(needs) == 0 && from != "" {
			g.line("%s%s -->%s %s", indent, from, label, s.node())
		}
		for _, name := range needs {
			g.line("%s%s -->%s %s", indent, steps[index[name]].node(), label, s.node())
		}
		if s.OnError == Goto {
			if i, here := index[s.Goto.Name]; here {
				g.line("%s%s -.->|error| %s", indent, s.node(), steps[i].node())
			}
		}
	}
}

// node returns the name of a step's node. Some words are keywords of Mermaid.
func (s *Step) node() string { return "step_" + s.Name }

// step draws a step with those inside it.
func (g *graph) step(s *Step, depth int) {
	indent := strings.Repeat("  ", depth)
	open, end := `["`, `"]`
	switch s.Type {
	case Approval:
		open, end = `{{"`, `"}}`
	case SubWorkflow:
		open, end = `[["`, `"]]`
	case Wait:
		open, end = `(["`, `"])`
	case Form:
		open, end = `[/"`, `"/]`
	}
	label := s.Name + ": " + s.Type
	if s.Target.Name != "" {
		label = s.Name + ": " + s.Target.Name
	}
	if len(s.Blocks) == 0 {
		g.line("%s%s%s%s%s", indent, s.node(), open, mermaidText(label), end)
		return
	}
	g.line(`%ssubgraph %s["%s"]`, indent, s.node(), mermaidText(label))
	for i, b := range s.Blocks {
		name := b.Name
		if s.Type == Parallel {
			name = fmt.Sprintf("branch %d", i+1)
		}
		if name == "" {
			g.list(b.Steps, "", depth+1)
			continue
		}
		g.line(`%s  subgraph %s_%d["%s"]`, indent, s.node(), i+1, name)
		g.list(b.Steps, "", depth+2)
		g.line("%s  end", indent)
	}
	g.line("%send", indent)
}
