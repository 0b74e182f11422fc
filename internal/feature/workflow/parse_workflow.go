package workflow

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
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
	all(w.Steps, func(s *Step) { r.checkTimeout(s, w.Guardrails.Timeout) })
	if w.Export {
		r.checkExport(w, described)
	}
	return w
}

// Limits of an exported workflow. Clients and models do not accept longer names of tools, and read
// every description.
const (
	maxExportName        = 64
	maxExportDescription = 1024
)

func (r *reader) checkExport(w *Workflow, described Pos) {
	if n := len(w.Name); n > maxExportName {
		r.add(w.namePos, "", "the name has %d characters; that of an exported workflow has at most %d", n, maxExportName)
	}
	if n := utf8.RuneCountInString(w.Description); n > maxExportDescription {
		r.add(described, "", "the description has %d characters; that of an exported workflow has at most %d", n, maxExportDescription)
	}
}

func (r *reader) boolean(key Ref, n *yaml.Node) bool {
	if kindOf(n) != "a boolean" {
		r.add(posOf(n), "", "%s is %s; it must be true or false", key.Name, kindOf(n))
		return false
	}
	return isTrue(n)
}

// version reads a text or a number.
func (r *reader) version(key Ref, n *yaml.Node) string {
	if isNumberNode(n) {
		return n.Value
	}
	return r.text(key, n)
}

// inputs reads the JSON schema of the inputs, an object.
func (r *reader) inputs(key Ref, n *yaml.Node) (json.RawMessage, []string) {
	before := len(r.found)
	list, ok := r.pairs(n, "inputs")
	if !ok {
		return nil, nil
	}
	var properties, of *yaml.Node
	for _, p := range list {
		switch p.key.Name {
		case "properties":
			properties = p.value
		case "type":
			of = p.value
		}
	}
	if properties == nil {
		r.add(key.Pos, "write inputs: {properties: {NAME: {type: string}}, required: [NAME]}", "inputs is not a JSON schema with properties")
		return nil, nil
	}
	if of != nil && of.Value != "object" {
		r.add(posOf(of), "write type: object", "inputs has the type %.40q; inputs are an object", of.Value)
	}
	all, _ := r.pairs(properties, "properties")
	var names []string
	for _, p := range all {
		names = append(names, p.key.Name)
		r.pairs(p.value, "the schema of input "+p.key.Name) // reports what is no mapping
	}
	raw := r.schema(Ref{"inputs", key.Pos}, n)
	if len(r.found) > before {
		return nil, names
	}
	return raw, names
}

// schema reads a JSON schema.
func (r *reader) schema(key Ref, n *yaml.Node) json.RawMessage {
	v := r.constant(n)
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err == nil {
		err = schema.Valid(raw)
	}
	if err != nil {
		r.add(key.Pos, "", "%s is not a JSON schema: %s", key.Name, firstLine(err.Error()))
		return nil
	}
	return raw
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
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

// duration reads a number of seconds, or a text such as 1m30s.
func (r *reader) duration(key Ref, n *yaml.Node) time.Duration {
	switch {
	case isNumberNode(n):
		if seconds, err := strconv.ParseFloat(n.Value, 64); err == nil && seconds > 0 && seconds < math.MaxInt64/2e9 {
			return time.Duration(seconds * float64(time.Second))
		}
	case isTextNode(n):
		if d, err := clock.ParseDuration(n.Value); err == nil && d > 0 {
			return d
		}
	}
	r.add(posOf(n), "write seconds, or a text such as 1m30s", "%s is %.40q; it must be a time of more than 0", key.Name, n.Value)
	return 0
}

func (r *reader) whole(key Ref, n *yaml.Node, least, most int) (v int) {
	if isNumberNode(n) {
		if v, err := strconv.Atoi(n.Value); err == nil && v >= least && v <= most {
			return v
		}
	}
	r.add(posOf(n), "", "%s is %.40q; it must be a whole number from %d to %d", key.Name, n.Value, least, most)
	return least
}

// seconds reads a duration or an expression of seconds.
func (r *reader) seconds(key Ref, n *yaml.Node) *Value {
	if v := r.value(n); v.Template != nil {
		if len(v.Template) > 1 {
			r.add(v.Pos, "", "%s has text beside its expression; it must be one expression of seconds", key.Name)
		}
		return v
	}
	return &Value{Pos: posOf(n), Plain: json.Number(fmt.Sprintf("%g", r.duration(key, n).Seconds()))}
}

// isoLayouts are the forms of a time that are checked before a run.
var isoLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly}

// instant reads a time in ISO 8601, or an expression of a time.
func (r *reader) instant(key Ref, n *yaml.Node) *Value {
	v := r.words(key, n)
	text, isText := v.Plain.(string)
	parses := func(layout string) bool { _, err := time.Parse(layout, text); return err == nil }
	if isText && text != "" && !slices.ContainsFunc(isoLayouts, parses) {
		r.add(v.Pos, "write a time such as 2026-12-31T09:00:00+01:00", "%s %.60q is not a time", key.Name, text)
	}
	return v
}

// words reads a text that is not empty, which may contain expressions.
func (r *reader) words(key Ref, n *yaml.Node) *Value {
	v := r.value(n)
	if text, isText := v.Plain.(string); v.Template == nil && (!isText || text == "") {
		r.add(v.Pos, "", "%s is %s; it must be text", key.Name, kindOf(n))
	}
	return v
}
