package codegen

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Limits of an outline.
const (
	maxOutlined     = 12 // names of fields
	maxOutlineDepth = 3  // levels
	maxOutlinedName = 40 // characters
)

// Outline returns the type of the results of d in few tokens: an object is the names of its fields,
// {id, lines: [{sku, …}], note?}, at most maxOutlined with those inside; "" if nothing is known.
func Outline(d tool.Definition) string { return outlineResult(d, names{left: maxOutlined}) }

func outlineResult(d tool.Definition, n names) string {
	declared, _ := d.Returns()
	if len(declared) == 0 {
		return ""
	}
	r := newReader(parseSchema(declared), newNamespace("result"), true)
	if text := outline(r, r.root, &n, 0); text != "Any" {
		return text
	}
	return ""
}

// names limits the names of fields in an outline.
type names struct {
	left  int
	typed bool // fields of other types than objects have their type too
}

// outline returns the outline of a schema.
func outline(r *reader, s any, n *names, depth int) string {
	r.steps++
	o, ok := s.(*object)
	if !ok || r.steps > maxSteps || depth > maxOutlineDepth {
		return "Any"
	}
	if ref, ok := o.at("$ref").(string); ok {
		return outline(r, r.target(ref), n, depth+1)
	}
	types := typeNames(o)
	if len(types) == 0 {
		types = impliedTypes(o)
	}
	if len(types) == 0 {
		return outlineBranches(r, o, n, depth)
	}
	var parts []string
	for _, name := range types {
		text := outlineOf(r, name, o, n, depth)
		if text == "Any" {
			return "Any"
		}
		if !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	if i := slices.Index(parts, "None"); i >= 0 && len(parts) > 1 { // it is the last one
		parts = append(slices.Delete(parts, i, i+1), "None")
	}
	return strings.Join(parts, "|")
}

// outlineBranches returns the outline of the fields of all branches, or of the branches if they have no
// fields.
func outlineBranches(r *reader, o *object, n *names, depth int) string {
	var parts []string
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		branches, _ := o.at(key).([]any)
		for _, branch := range branches[:min(len(branches), 4)] {
			if text := outline(r, branch, n, depth+1); text != "Any" && !slices.Contains(parts, text) {
				parts = append(parts, text)
			}
		}
	}
	if parts == nil {
		return "Any"
	}
	return strings.Join(parts, "|")
}

func outlineOf(r *reader, jsonType string, o *object, n *names, depth int) string {
	switch jsonType {
	case "object":
		return outlineObject(r, o, n, depth)
	case "array":
		items := outline(r, o.at("items"), n, depth+1)
		switch {
		case strings.HasPrefix(items, "{"):
			return "[" + items + "]"
		case items == "Any":
			return "list"
		}
		return "list[" + items + "]"
	case "string":
		return "str"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "null":
		return "None"
	}
	return "Any"
}

func outlineObject(r *reader, o *object, n *names, depth int) string {
	var f fields
	r.fields(o, &f, certain, depth)
	if len(f.all) == 0 {
		more, _ := o.at("additionalProperties").(*object)
		if value := outline(r, more, n, depth+1); more != nil && value != "Any" {
			return "dict[str, " + value + "]"
		}
		return "dict"
	}
	if n.left <= 0 {
		return "{…}"
	}
	shown := f.all[:min(len(f.all), n.left)]
	n.left -= len(shown)
	var parts []string
	for _, p := range shown {
		name := outlineName(p.name)
		if !p.required {
			name += "?"
		}
		if inside := outlineInside(r, p, n, depth); inside != "" {
			name += ": " + inside
		}
		parts = append(parts, name)
	}
	if len(shown) < len(f.all) {
		parts = append(parts, "…")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// outlineInside returns the outline of a field that has fields, otherwise "".
func outlineInside(r *reader, p *field, n *names, depth int) string {
	s := p.schema()
	if s == nil || n.left <= 0 && !n.typed || depth+1 >= maxOutlineDepth {
		return ""
	}
	before := n.left
	text := outline(r, s, n, depth+1)
	if n.left == before && !n.typed { // it has no names
		return ""
	}
	return text
}

var plainName = regexp.MustCompile(`^[A-Za-z_$][\w.$:-]*$`)

// outlineName returns the name of a field, quoted unless it has nothing but letters and the like.
func outlineName(name string) string {
	if len(name) <= maxOutlinedName && plainName.MatchString(name) {
		return name
	}
	return singleQuoted(literal(oneLine(name, maxOutlinedName)))
}

// markInferred marks the schema of an object as inferred.
func markInferred(s json.RawMessage) json.RawMessage {
	if len(s) < 3 {
		return s
	}
	return append([]byte(`{"inferred":true,`), s[1:]...)
}

// Learned returns d with an output schema that was inferred from results, if it declares none.
func Learned(d tool.Definition, inferred json.RawMessage) tool.Definition {
	if d.Output == nil && len(inferred) > 0 {
		d.Output = markInferred(inferred)
	}
	return d
}
