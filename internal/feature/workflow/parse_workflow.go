package workflow

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

func (r *reader) workflow(n *yaml.Node) *Workflow {
	w := &Workflow{File: r.file, Pos: posOf(n)}
	var described Pos
	r.read(n, "the workflow", keys{
		"name":        func(k Ref, n *yaml.Node) { name := r.name(k, n); w.Name, w.namePos = name.Name, name.Pos },
		"description": func(k Ref, n *yaml.Node) { w.Description, described = r.text(k, n), posOf(n) },
		"version":     func(k Ref, n *yaml.Node) { w.Version = r.version(k, n) },
		"export":      func(k Ref, n *yaml.Node) { w.Export = r.boolean(k, n) },
		"inputs": func(k Ref, n *yaml.Node) {
			w.Inputs, w.InputNames = r.inputs(k, n)
			w.anyInput = w.InputNames == nil && w.Inputs == nil
		},
		"guardrails": func(k Ref, n *yaml.Node) { w.Guardrails = r.guardrails(n) },
		"steps":      func(k Ref, n *yaml.Node) { w.Steps = r.stepList(k, n) },
		"outputs":    func(k Ref, n *yaml.Node) { w.Outputs = r.fields(k, n) },
	}, "name", "steps")
	all(w.Steps, func(s *Step) { checkTimeout(&r.findings, s, w.Guardrails.Timeout) })
	if w.Export {
		checkExport(&r.findings, w, described)
	}
	return w
}

// Limits of an exported workflow. Clients and models do not accept longer names of tools, and read
// every description.
const (
	maxExportName        = 64
	maxExportDescription = 1024
)

func checkExport(f *findings, w *Workflow, described Pos) {
	if n := len(w.Name); n > maxExportName {
		f.add(w.namePos, "", "the name has %d characters; that of an exported workflow has at most %d", n, maxExportName)
	}
	if n := utf8.RuneCountInString(w.Description); n > maxExportDescription {
		f.add(described, "", "the description has %d characters; that of an exported workflow has at most %d", n, maxExportDescription)
	}
}

// inputs reads the JSON schema of the inputs, an object.
func (r *reader) inputs(key Ref, n *yaml.Node) (json.RawMessage, []string) {
	before := len(r.found)
	of, _ := r.constant(n).(map[string]any)
	properties, ok := of["properties"].(map[string]any)
	if !ok {
		r.add(key.Pos, "write inputs: {properties: {NAME: {type: string}}, required: [NAME]}",
			"inputs is not a JSON schema with properties")
		return nil, nil
	}
	if t, given := of["type"]; given && t != "object" {
		r.add(key.Pos, "write type: object", "inputs has the type %.40q; inputs are an object", t)
	}
	for _, name := range names(properties) {
		if _, ok := properties[name].(map[string]any); !ok {
			r.add(key.Pos, "", "the schema of input %.60s is no mapping", name)
		}
	}
	raw := r.schema(key, of)
	if len(r.found) > before {
		raw = nil
	}
	return raw, names(properties)
}

func (r *reader) guardrails(n *yaml.Node) (g Guardrails) {
	r.read(n, "guardrails", keys{
		"tools": func(k Ref, n *yaml.Node) {
			for _, item := range r.list(k, n) {
				name := r.text(k, item)
				if server, of, ok := strings.Cut(name, "."); name != "" && (!ok || server == "" || of == "") {
					r.add(posOf(item), "", "tools has %.60q; it must be SERVER.TOOL", name)
				}
				g.Tools = append(g.Tools, name)
			}
		},
		"timeout":   func(k Ref, n *yaml.Node) { g.Timeout = r.duration(k, n) },
		"memory_mb": func(k Ref, n *yaml.Node) { g.MemoryMB = r.whole(k, n, 1, 1<<20) },
	})
	return g
}
