package codegen

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Limits on the work for one schema.
const (
	maxSteps = 20_000 // subschemas read in one document
	maxDepth = 24     // levels of nested subschemas
)

// document is a schema with those that it refers to.
type document struct {
	root  any
	steps int // taken so far, which are limited
}

// reader converts the schemas of one document to types.
type reader struct {
	document
	names *namespace
	// result is set for an output schema: decoded JSON has lists, not tuples.
	result bool
	refs   map[string]typ  // types of resolved references
	open   map[string]bool // references being resolved
}

func newReader(root any, names *namespace, result bool) *reader {
	return &reader{document: document{root: root}, names: names, result: result, refs: map[string]typ{}, open: map[string]bool{}}
}

// typ returns the type of the values that the schema s allows, or a wider one. The
// name of a class that it defines is derived from hint.
func (r *reader) typ(s any, hint string, depth int) typ {
	r.steps++
	o, ok := s.(*object)
	if !ok {
		return anything
	}
	if r.steps > maxSteps || depth > maxDepth {
		return r.shallowType(o)
	}
	t := r.declaredType(o, hint, depth)
	if t.empty() {
		t = anything
	}
	if o.at("nullable") == true && !t.any {
		t.null = true
	}
	return t
}

// declaredType returns the type given by the first keyword that determines one.
func (r *reader) declaredType(o *object, hint string, depth int) typ {
	if ref, ok := o.at("$ref").(string); ok {
		return r.ref(ref, hint, depth)
	}
	if c, ok := o.find("const"); ok {
		return r.enum([]any{c})
	}
	if values, ok := o.at("enum").([]any); ok && len(values) > 0 {
		t := r.enum(values)
		t.null = t.null || !t.any && slices.Contains(typeNames(o), "null")
		return t
	}
	names := typeNames(o)
	if len(names) == 0 || slices.Equal(names, []string{"object"}) && o.at("properties") == nil {
		if t := r.combined(o, hint, depth); !t.empty() {
			return t
		}
	}
	if len(names) == 0 {
		names = impliedTypes(o)
	}
	var t typ
	for _, name := range names {
		t = t.or(r.namedType(name, o, hint, depth))
	}
	return t
}

func typeNames(o *object) (names []string) {
	switch v := o.at("type").(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			if name, ok := e.(string); ok && len(names) < 8 {
				names = append(names, name)
			}
		}
	}
	return names
}

// impliedTypes returns the type of a schema that has no type keyword but other
// keywords that apply to one type only.
func impliedTypes(o *object) []string {
	for _, key := range []string{"properties", "additionalProperties", "patternProperties"} {
		if _, ok := o.at(key).(*object); ok {
			return []string{"object"}
		}
	}
	if o.at("items") != nil || o.at("prefixItems") != nil {
		return []string{"array"}
	}
	return nil
}

func (r *reader) namedType(name string, o *object, hint string, depth int) typ {
	switch name {
	case "string":
		return r.names.plain("str")
	case "integer":
		return r.names.plain("int")
	case "number":
		return r.names.plain("float")
	case "boolean":
		return r.names.plain("bool")
	case "null":
		return typ{null: true}
	case "array":
		return r.array(o, hint, depth)
	case "object":
		return r.object(o, hint, depth)
	}
	return anything
}

// shallowType returns the type of a schema without reading its subschemas.
func (r *reader) shallowType(o *object) typ {
	switch names := typeNames(o); {
	case slices.Equal(names, []string{"object"}):
		return r.dict(anything)
	case slices.Equal(names, []string{"array"}):
		return r.list(anything)
	}
	return anything
}

func (r *reader) dict(of typ) typ {
	brief := of.brief()
	if len(brief) > maxBriefLen {
		brief = "Any"
	}
	return single(r.names.use("dict")+"["+r.names.use("str")+", "+of.expr(r.names)+"]", "dict[str, "+brief+"]")
}

func (r *reader) list(of typ) typ {
	brief := of.brief()
	if len(brief) > maxBriefLen {
		brief = "Any"
	}
	return single(r.names.use("list")+"["+of.expr(r.names)+"]", "list["+brief+"]")
}

// combined returns the type of anyOf, oneOf and allOf. Branches without a type,
// such as {"required": ["a"]}, are ignored.
func (r *reader) combined(o *object, hint string, depth int) typ {
	if _, ok := o.at("allOf").([]any); ok && r.hasProperties(o, depth) {
		return r.object(o, hint, depth)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if branches, ok := o.at(key).([]any); ok && len(branches) > 0 {
			return r.union(branches, hint, depth)
		}
	}
	all, _ := o.at("allOf").([]any)
	return r.intersection(all, hint, depth)
}

func (r *reader) union(branches []any, hint string, depth int) (t typ) {
	for _, b := range branches {
		if t.any {
			break
		}
		t = t.or(r.typ(b, hint, depth+1))
	}
	return t
}

// intersection returns the type that all typed branches have in common, Any if
// they differ, and the empty type if no branch has one.
func (r *reader) intersection(all []any, hint string, depth int) (t typ) {
	for _, s := range all {
		switch u := r.typ(s, hint, depth+1); {
		case u.any:
		case t.empty():
			t = u
		case t.expr(r.names) != u.expr(r.names):
			return anything
		}
	}
	return t
}

// hasProperties reports whether an unconditional part of o has properties.
func (r *document) hasProperties(o *object, depth int) bool {
	r.steps++
	if depth > maxDepth || r.steps > maxSteps {
		return false
	}
	if p, ok := o.at("properties").(*object); ok && len(p.keys) > 0 {
		return true
	}
	if ref, ok := o.at("$ref").(string); ok {
		target, _ := r.target(ref).(*object)
		return target != nil && r.hasProperties(target, depth+1)
	}
	all, _ := o.at("allOf").([]any)
	return slices.ContainsFunc(all, func(s any) bool {
		part, ok := s.(*object)
		return ok && r.hasProperties(part, depth+1)
	})
}

// enum returns the union of the values. A value without a Python literal is
// represented by its type.
func (r *reader) enum(values []any) (t typ) {
	for _, v := range values {
		if t.any {
			break
		}
		t = t.or(r.constant(v))
	}
	return t
}

func (r *reader) constant(v any) typ {
	switch v := v.(type) {
	case nil:
		return typ{null: true}
	case bool:
		return literalType(boolean(v), "bool")
	case string:
		if len(v) <= maxLiteralLen {
			return literalType(literal(v), "str")
		}
		return r.names.plain("str")
	case json.Number:
		if s, ok := integer(v); ok {
			return literalType(s, "int")
		}
		return r.names.plain("float")
	case []any:
		return r.list(anything)
	}
	return r.dict(anything)
}

func literalType(expr, base string) typ {
	return typ{literals: []alternative{{expr: expr, brief: expr, base: base}}}
}

func boolean(v bool) string {
	if v {
		return "True"
	}
	return "False"
}

// integer formats a number as a Python integer if it is an int64, or a float with
// an integral value below 2^53.
func integer(v json.Number) (string, bool) {
	if i, err := v.Int64(); err == nil {
		return strconv.FormatInt(i, 10), true
	}
	if f, err := v.Float64(); err == nil && f == float64(int64(f)) && f > -1<<53 && f < 1<<53 {
		return strconv.FormatInt(int64(f), 10), true
	}
	return "", false
}
