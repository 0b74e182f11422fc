package codegen

import (
	"encoding/json"
	"strings"
)

const (
	maxSignature    = 1500 // bytes
	maxExample      = 400  // bytes
	maxExampleDepth = 6    // levels of nesting in an example
)

// signature returns the function's signature on one line. If it is too long, it
// omits the types, and then the parameters.
func (f *function) signature() string {
	var typed, names []string
	for _, p := range f.params {
		typed = append(typed, p.id+": "+p.typ.brief()+p.defaultText())
		if p.required {
			names = append(names, p.id)
		} else {
			names = append(names, p.id+"="+strings.TrimPrefix(p.defaultText(), " = "))
		}
	}
	if !f.more.empty() {
		typed = append(typed, "**"+f.moreName()+": "+f.more.brief())
		names = append(names, "**"+f.moreName())
	}
	result := f.result.brief()
	for _, parts := range [][]string{typed, names} {
		if s := f.name + "(" + strings.Join(parts, ", ") + ") -> " + result; len(s) <= maxSignature {
			return s
		}
	}
	return f.name + "(...) -> " + result
}

// example returns a call with the required arguments, and those of the first alternative, derived
// from the schema. If it is too long, each value is ..., and then the argument list is.
func (f *function) example() string {
	var parts, names []string
	for _, p := range f.params {
		if p.required || p.usual {
			names = append(names, p.id)
			parts = append(parts, p.id+"="+f.input.sample(p.schema, p.wire, 0))
		}
	}
	if s := f.name + "(" + strings.Join(parts, ", ") + ")"; len(s) <= maxExample {
		return s
	}
	for i, id := range names {
		parts[i] = id + "=..."
	}
	if s := f.name + "(" + strings.Join(parts, ", ") + ")"; len(s) <= maxExample {
		return s
	}
	return f.name + "(...)"
}

// sample returns a Python expression for a value of s: one given in the schema, such as
// a default, otherwise one of its type, which may violate other constraints. property
// is the name of the property, and the sample of a string that has no other.
func (r *document) sample(s *object, property string, depth int) string {
	r.steps++
	if s == nil || depth > maxExampleDepth || r.steps > 2*maxSteps {
		return "..."
	}
	if given, ok := givenSample(s); ok {
		return given
	}
	if ref, ok := s.at("$ref").(string); ok {
		target, _ := r.target(ref).(*object)
		return r.sample(target, property, depth+1)
	}
	types := typeNames(s)
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if branches, ok := s.at(key).([]any); ok && len(branches) > 0 && len(types) == 0 {
			branch, _ := branches[0].(*object)
			return r.sample(branch, property, depth+1)
		}
	}
	if len(types) == 0 {
		types = append(impliedTypes(s), "string")
	}
	return r.sampleOf(types[0], s, property, depth)
}

// givenSample returns the first scalar among const, default, example, and the first items
// of examples and enum.
func givenSample(s *object) (string, bool) {
	candidates := []any{s.at("const"), s.at("default"), s.at("example")}
	for _, key := range []string{"examples", "enum"} {
		if values, ok := s.at(key).([]any); ok && len(values) > 0 {
			candidates = append(candidates, values[0])
		}
	}
	for _, c := range candidates {
		switch c.(type) {
		case string, bool, json.Number:
			if expr, ok := value(anything, c); ok {
				return expr, true
			}
		}
	}
	return "", false
}

// sampleOf returns a value of s that has a type of JSON Schema.
func (r *document) sampleOf(jsonType string, s *object, property string, depth int) string {
	switch jsonType {
	case "string":
		return sampleText(s, property)
	case "integer", "number":
		for _, bound := range []string{"minimum", "maximum"} {
			if expr, ok := value(anything, s.at(bound)); ok {
				return expr
			}
		}
		return "1"
	case "boolean":
		return "True"
	case "null":
		return "None"
	case "array":
		return r.sampleArray(s, property, depth)
	case "object":
		return r.sampleObject(s, depth)
	}
	return "..."
}

func (r *document) sampleArray(s *object, property string, depth int) string {
	items, ok := s.at("prefixItems").([]any)
	if !ok {
		items, ok = s.at("items").([]any)
	}
	if !ok && s.at("items") != nil {
		items = []any{s.at("items")}
	}
	var parts []string
	for _, schema := range items[:min(len(items), maxTuple)] {
		item, _ := schema.(*object)
		parts = append(parts, r.sample(item, property, depth+1))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (r *document) sampleObject(s *object, depth int) string {
	var f fields
	r.fields(s, &f, certain, depth)
	var parts []string
	length := 0
	for _, p := range f.all {
		if p.required && length < maxExample {
			part := literal(p.name) + ": " + r.sample(p.schema(), p.name, depth+1)
			parts, length = append(parts, part), length+len(part)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// formats maps common values of the keyword format to an example.
var formats = map[string]string{
	"date": "2026-01-31", "date-time": "2026-01-31T09:00:00Z", "time": "09:00:00Z", "duration": "PT1H",
	"email": "name@example.com", "uri": "https://example.com", "url": "https://example.com", "hostname": "example.com",
	"ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uuid": "00000000-0000-4000-8000-000000000000",
}

func sampleText(s *object, property string) string {
	format, _ := s.at("format").(string)
	if text, ok := formats[format]; ok {
		return literal(text)
	}
	if property = oneLine(property, 40); property != "" {
		return literal(property)
	}
	return `"text"`
}
