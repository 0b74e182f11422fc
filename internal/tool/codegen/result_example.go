package codegen

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// ResultExample returns a Python value like the results of d, with placeholders by type and format, derived
// from its output schema and never from a result; "" if nothing is known. It has at most these fields of each
// object, and "..." for others.
func ResultExample(d tool.Definition, fields int) string {
	declared, _ := d.Returns()
	if len(declared) == 0 {
		return ""
	}
	r := newReader(parseSchema(declared), newNamespace("result"), true)
	if text := placeholder(r, r.root, fields, 0); len(text) <= maxExample {
		return singleQuoted(text)
	}
	return ""
}

// placeholders are the values of scalar types and of formats.
var placeholders = map[string]string{
	"string": `"text"`, "integer": "1", "number": "1.5", "boolean": "True", "null": "None",
	"date": `"2026-01-31"`, "date-time": `"2026-01-31T09:30:00Z"`, "uri": `"https://..."`, "decimal": `"1.50"`,
}

// placeholder returns a value of the type of a schema, with at most these fields in each object.
func placeholder(r *reader, s any, fields, depth int) string {
	r.steps++
	o, ok := s.(*object)
	if !ok || depth > maxExampleDepth || r.steps > maxSteps {
		return "..."
	}
	if ref, ok := o.at("$ref").(string); ok {
		return placeholder(r, r.target(ref), fields, depth+1)
	}
	types := append(typeNames(o), impliedTypes(o)...)
	if len(types) == 0 {
		return "..."
	}
	first := types[0]
	if first == "null" && len(types) > 1 {
		first = types[1]
	}
	switch first {
	case "object":
		return placeholderObject(r, o, fields, depth)
	case "array":
		if o.at("items") == nil {
			return "[]"
		}
		return "[" + placeholder(r, o.at("items"), fields, depth+1) + "]"
	case "string":
		if format, _ := o.at("format").(string); placeholders[format] != "" {
			return placeholders[format]
		}
	}
	return placeholders[first]
}

func placeholderObject(r *reader, o *object, most, depth int) string {
	var f fields
	r.fields(o, &f, certain, depth)
	var parts []string
	for _, p := range f.all[:min(len(f.all), most)] {
		parts = append(parts, literal(p.name)+": "+placeholder(r, p.schema(), most, depth+1))
	}
	if more, ok := o.at("additionalProperties").(*object); ok && len(parts) == 0 {
		parts = append(parts, `"key": `+placeholder(r, more, most, depth+1))
	}
	if len(f.all) > most {
		parts = append(parts, "...")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
