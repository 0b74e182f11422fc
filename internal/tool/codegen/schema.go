package codegen

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Bounds on how far a schema is followed.
const (
	mostSteps  = 20_000 // schemas looked at for one document
	mostNested = 24     // schemas within each other
)

// reader makes types of the schemas of one document.
type reader struct {
	root  any
	names *namespace
	// result says that values come from JSON, where a tuple is a list.
	result bool
	steps  int
	refs   map[string]typ  // what has been made of a reference
	open   map[string]bool // references that are being followed
}

func newReader(root any, names *namespace, result bool) *reader {
	return &reader{root: root, names: names, result: result, refs: map[string]typ{}, open: map[string]bool{}}
}

// typ is the type of what the schema s allows, or a wider one. A class made for
// it gets a name like hint.
func (r *reader) typ(s any, hint string, depth int) typ {
	r.steps++
	o, ok := s.(*object)
	if !ok {
		return anything
	}
	if r.steps > mostSteps || depth > mostNested {
		return r.wide(o)
	}
	t := r.said(o, hint, depth)
	if t.empty() {
		t = anything
	}
	if o.at("nullable") == true && !t.any {
		t.null = true
	}
	return t
}

// said is what the first keyword that says something of types says.
func (r *reader) said(o *object, hint string, depth int) typ {
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
		names = implied(o)
	}
	var t typ
	for _, name := range names {
		t = t.or(r.named(name, o, hint, depth))
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

// implied is the type of a schema that has keywords for one, but does not say it.
func implied(o *object) []string {
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

func (r *reader) named(name string, o *object, hint string, depth int) typ {
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

// wide is the type of a schema that is not looked into.
func (r *reader) wide(o *object) typ {
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
	if len(brief) > longestBrief {
		brief = "Any"
	}
	return single(r.names.use("dict")+"["+r.names.use("str")+", "+of.expr(r.names)+"]", "dict[str, "+brief+"]")
}

func (r *reader) list(of typ) typ {
	brief := of.brief()
	if len(brief) > longestBrief {
		brief = "Any"
	}
	return single(r.names.use("list")+"["+of.expr(r.names)+"]", "list["+brief+"]")
}

// combined is the type of anyOf, oneOf and allOf. Branches that say nothing of
// types, such as {"required": ["a"]}, say nothing here either.
func (r *reader) combined(o *object, hint string, depth int) typ {
	if _, ok := o.at("allOf").([]any); ok && r.objects(o, depth) {
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

// intersection is the one type that all agree on who say one, or nothing.
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

// objects says whether some part of o that always holds has properties.
func (r *reader) objects(o *object, depth int) bool {
	r.steps++
	if depth > mostNested || r.steps > mostSteps {
		return false
	}
	if p, ok := o.at("properties").(*object); ok && len(p.keys) > 0 {
		return true
	}
	if ref, ok := o.at("$ref").(string); ok {
		target, _ := r.target(ref).(*object)
		return target != nil && r.objects(target, depth+1)
	}
	all, _ := o.at("allOf").([]any)
	return slices.ContainsFunc(all, func(s any) bool {
		part, ok := s.(*object)
		return ok && r.objects(part, depth+1)
	})
}

// enum is one of the values; those that Python has no literals for become types.
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
		return r.one(boolean(v), "bool")
	case string:
		if len(v) <= longestLiteral {
			return r.one(literal(v), "str")
		}
		return r.names.plain("str")
	case json.Number:
		if s, ok := integer(v); ok {
			return r.one(s, "int")
		}
		return r.names.plain("float")
	case []any:
		return r.list(anything)
	}
	return r.dict(anything)
}

func (r *reader) one(expr, base string) typ {
	return typ{literals: []alternative{{expr: expr, brief: expr, base: base}}}
}

func boolean(v bool) string {
	if v {
		return "True"
	}
	return "False"
}

// integer is a number as an integer that Python and everybody else reads alike.
func integer(v json.Number) (string, bool) {
	if i, err := v.Int64(); err == nil {
		return strconv.FormatInt(i, 10), true
	}
	if f, err := v.Float64(); err == nil && f == float64(int64(f)) && f > -1<<53 && f < 1<<53 {
		return strconv.FormatInt(int64(f), 10), true
	}
	return "", false
}
