package codegen

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Limits on the classes of one module. An object beyond them becomes a dict.
const (
	maxKeys      = 200  // keys of one class
	maxTotalKeys = 2000 // keys of all classes
	maxClasses   = 60
)

// field is one property of an object, collected from all parts of its schema.
type field struct {
	name     string
	always   []any // schemas in unconditional parts
	possibly []any // schemas in branches
	required bool
	usual    bool // required, or required by the first alternative
}

// fields holds the properties of an object in the order of the schema.
type fields struct {
	all    []*field
	named  map[string]*field
	parts  []*object // all that were read
	opaque bool      // another part could not be read, or allows everything
	closed bool      // an unconditional part allows no other properties
}

// presence is the condition under which a part of a schema applies.
type presence int

const (
	possible presence = iota // other alternatives, then and else
	usual                    // the first alternative
	certain
)

func (f *fields) names() []string {
	names := make([]string, len(f.all))
	for i, p := range f.all {
		names[i] = p.name
	}
	return names
}

func (f *fields) at(name string) *field {
	if f.named == nil {
		f.named = map[string]*field{}
	}
	if f.named[name] == nil {
		f.named[name] = &field{name: name}
		f.all = append(f.all, f.named[name])
	}
	return f.named[name]
}

// fields adds the properties of s and of its combined parts to f. A property that
// only a branch requires is optional.
func (r *document) fields(s any, f *fields, in presence, depth int) {
	r.steps++
	o, ok := s.(*object)
	if !ok || depth > maxDepth || r.steps > maxSteps {
		f.opaque = f.opaque || s != false
		return
	}
	f.parts = append(f.parts, o)
	if ref, ok := o.at("$ref").(string); ok {
		r.fields(r.target(ref), f, in, depth+1)
	}
	properties(o, f, in)
	all, _ := o.at("allOf").([]any)
	for _, part := range all {
		r.fields(part, f, in, depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		parts, _ := o.at(key).([]any)
		for i, part := range parts {
			if i > 0 {
				r.fields(part, f, possible, depth+1)
			} else {
				r.fields(part, f, min(in, usual), depth+1)
			}
		}
	}
	conditional(r, o, f, depth)
}

// conditional adds the properties that depend on others.
func conditional(r *document, o *object, f *fields, depth int) {
	for _, key := range []string{"then", "else"} {
		if part, ok := o.at(key).(*object); ok {
			r.fields(part, f, possible, depth+1)
		}
	}
	for _, key := range []string{"dependentSchemas", "dependencies"} {
		parts, _ := o.at(key).(*object)
		for i := range parts.len() {
			if part, ok := parts.values[i].(*object); ok {
				r.fields(part, f, possible, depth+1)
			}
		}
	}
	condition, _ := o.at("if").(*object)
	named, _ := condition.at("properties").(*object)
	for i := range named.len() {
		if f.named[named.keys[i]] == nil { // a value that it does not match is allowed too
			f.at(named.keys[i]).possibly = []any{true}
		}
	}
}

func properties(o *object, f *fields, in presence) {
	if in == certain && (o.at("additionalProperties") == false && o.at("patternProperties") == nil ||
		o.at("unevaluatedProperties") == false) {
		f.closed = true
	}
	if p, ok := o.at("properties").(*object); ok {
		for i, name := range p.keys {
			switch s := p.values[i]; {
			case s == false: // the property is not allowed
			case in == certain:
				f.at(name).always = append(f.at(name).always, s)
			default:
				f.at(name).possibly = append(f.at(name).possibly, s)
			}
		}
	}
	names, _ := o.at("required").([]any)
	for _, v := range names {
		if name, ok := v.(string); ok {
			p := f.at(name)
			p.required = p.required || in == certain
			p.usual = p.usual || in >= usual
		}
	}
}

// namesNone reports whether no part of the schema names properties.
func (f *fields) namesNone() bool {
	return len(f.all) == 0 && !slices.ContainsFunc(f.parts, func(o *object) bool { return o.at("properties") != nil })
}

// schema returns the schema that documents the property, or nil.
func (f *field) schema() *object {
	for _, s := range append(slices.Clip(f.always), f.possibly...) {
		if o, ok := s.(*object); ok {
			return o
		}
	}
	return nil
}

// fieldType returns the type of one property.
func (r *reader) fieldType(f *field, hint string, depth int) typ {
	for _, s := range f.always {
		if t := r.typ(s, hint, depth); !t.any {
			return t
		}
	}
	if len(f.always) > 0 || len(f.possibly) == 0 {
		return anything
	}
	return r.union(f.possibly, hint, depth)
}

// object returns the type of an object: a class if it has named properties,
// otherwise a dict.
func (r *reader) object(o *object, hint string, depth int) typ {
	var f fields
	r.fields(o, &f, certain, depth)
	n := r.names
	for _, p := range f.all {
		if _, filled := p.schema().find("default"); filled && !r.result {
			p.required = false // see schema.Schema.Fill
		}
	}
	if len(f.all) == 0 {
		return r.dict(r.additionalType(o, hint, depth))
	}
	if len(f.all) > maxKeys || n.keys+len(f.all) > maxTotalKeys || len(n.taken) >= maxClasses {
		return r.dict(anything)
	}
	n.keys += len(f.all)
	return r.class(hint, &f, depth)
}

// additionalType returns the type of the values whose keys are not named.
func (r *reader) additionalType(o *object, hint string, depth int) typ {
	var schemas []any
	if p, ok := o.at("patternProperties").(*object); ok {
		schemas = append(schemas, p.values...)
	}
	switch more := o.at("additionalProperties"); {
	case more == false:
	case more == nil && len(schemas) > 0:
	default:
		schemas = append(schemas, more)
	}
	t := r.union(schemas, hint+"_value", depth)
	if t.empty() {
		return anything
	}
	return t
}

// class defines a TypedDict, or reuses one with the same keys and types.
func (r *reader) class(hint string, f *fields, depth int) typ {
	n := r.names
	var exprs, briefs []string
	for _, p := range f.all {
		t := r.fieldType(p, p.name, depth+1)
		exprs = append(exprs, n.key(p, t))
		briefs = append(briefs, briefKey(p, t))
	}
	brief := "{" + strings.Join(briefs, ", ") + "}"
	if len(brief) > 2*maxBriefLen {
		brief = "dict[str, Any]"
	}
	body := strings.Join(f.entries(exprs), ",\n        ")
	if n.bodies[body] == "" {
		n.bodies[body] = n.define(hint, body, f, exprs)
	}
	return single(n.bodies[body], brief)
}

// entries returns the keys as literals, with their types.
func (f *fields) entries(exprs []string) (entries []string) {
	for i, p := range f.all {
		entries = append(entries, literal(p.name)+": "+exprs[i])
	}
	return entries
}

// define adds a class. It uses the functional syntax of TypedDict if a key is not
// a valid attribute or would hide a name that the class uses.
func (n *namespace) define(hint, body string, f *fields, exprs []string) (name string) {
	name = n.class(hint)
	source, attributes := "class "+name+"("+n.use("TypedDict")+"):\n", true
	for i, p := range f.all {
		n.note(name, p)
		attributes = attributes && isAttribute(p.name) && !n.taken[p.name]
		source += "    " + p.name + ": " + exprs[i] + "\n"
	}
	if !attributes {
		source = name + " = " + n.use("TypedDict") + "(\n    " + literal(name) + ",\n    {\n        " + body + ",\n    },\n)\n"
	}
	n.classes = append(n.classes, source)
	return name
}

// key returns the type expression of one key in its class.
func (n *namespace) key(p *field, t typ) string {
	expr := t.expr(n)
	if p.required {
		return expr
	}
	return n.use("NotRequired") + "[" + expr + "]"
}

func briefKey(p *field, t typ) string {
	if p.required {
		return literal(p.name) + ": " + t.brief()
	}
	return literal(p.name+"?") + ": " + t.brief()
}

// keywords holds the reserved words of Python.
var keywords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`False None True and as assert async await break class continue def del elif else except
		finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`) {
		m[w] = true
	}
	return m
}()

// isAttribute reports whether a key can be an attribute of a class: an ASCII name
// that Python does not reserve or mangle and that is not the name of a known type.
func isAttribute(name string) bool {
	if name == "" || len(name) > 60 || strings.HasPrefix(name, "__") || known[strings.TrimPrefix(name, "_")] != "" || isDigit(name[0]) ||
		keywords[name] {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) < 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// class reserves a name for a class, derived from hint.
func (n *namespace) class(hint string) string {
	var b strings.Builder
	up := true
	for _, r := range hint {
		switch {
		case b.Len() >= 40:
		case r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r):
			up = true
		case up && (b.Len() > 0 || unicode.IsLetter(r)):
			b.WriteRune(unicode.ToUpper(r))
			up = false
		case b.Len() > 0:
			b.WriteRune(r)
		}
	}
	base := cmp.Or(b.String(), "Object")
	for {
		name := base
		if n.next[base]++; n.next[base] > 1 {
			name += strconv.Itoa(n.next[base])
		}
		if name != n.function && known[name] == "" && !keywords[name] && !n.taken[name] {
			n.taken[name] = true
			return name
		}
	}
}
