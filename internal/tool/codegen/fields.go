package codegen

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Bounds on the classes of one module; an object beyond them is a dict.
const (
	mostKeys    = 200  // of one class
	mostAllKeys = 2000 // of all
	mostClasses = 60
)

// field is one property of an object, as all parts of its schema speak of it.
type field struct {
	name     string
	always   []any // schemas of it in parts that always hold
	possibly []any // in branches
	required bool
}

// fields are the properties of an object, in the order of the schema.
type fields struct {
	all   []*field
	named map[string]*field
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

// fields gathers the properties that s names, also in the parts that it is
// combined of. What only a branch demands is not required.
func (r *reader) fields(s any, f *fields, always bool, depth int) {
	r.steps++
	o, ok := s.(*object)
	if !ok || depth > mostNested || r.steps > mostSteps {
		return
	}
	if ref, ok := o.at("$ref").(string); ok {
		r.fields(r.target(ref), f, always, depth+1)
	}
	r.properties(o, f, always)
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := o.at(key).([]any)
		for _, part := range parts {
			r.fields(part, f, always && key == "allOf", depth+1)
		}
	}
	for _, key := range []string{"then", "else"} {
		r.fields(o.at(key), f, false, depth+1)
	}
}

func (r *reader) properties(o *object, f *fields, always bool) {
	if p, ok := o.at("properties").(*object); ok {
		for i, name := range p.keys {
			switch s := p.values[i]; {
			case s == false: // it must not be there
			case always:
				f.at(name).always = append(f.at(name).always, s)
			default:
				f.at(name).possibly = append(f.at(name).possibly, s)
			}
		}
	}
	names, _ := o.at("required").([]any)
	for _, v := range names {
		if name, ok := v.(string); ok && always {
			f.at(name).required = true
		}
	}
}

// schema is the part of what is said that a reader is told.
func (f *field) schema() *object {
	for _, s := range append(slices.Clip(f.always), f.possibly...) {
		if o, ok := s.(*object); ok {
			return o
		}
	}
	return nil
}

// fieldType is the type of one property.
func (r *reader) fieldType(f *field, hint string, depth int) typ {
	for _, s := range f.always {
		if t := r.typ(s, hint, depth); !t.any {
			return t
		}
	}
	if len(f.always) > 0 {
		return anything
	}
	return r.union(f.possibly, hint, depth)
}

// object is the type of an object: a class if its properties are named, else a
// dict of what its values are.
func (r *reader) object(o *object, hint string, depth int) typ {
	var f fields
	r.fields(o, &f, true, depth)
	n := r.names
	if len(f.all) == 0 {
		return r.dict(r.others(o, hint, depth))
	}
	if len(f.all) > mostKeys || n.keys+len(f.all) > mostAllKeys || len(n.taken) >= mostClasses {
		return r.dict(anything)
	}
	n.keys += len(f.all)
	return r.class(hint, &f, depth)
}

// others is the type of the values whose keys are not named.
func (r *reader) others(o *object, hint string, depth int) typ {
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

// class defines a TypedDict, or finds the one with the same keys.
func (r *reader) class(hint string, f *fields, depth int) typ {
	n := r.names
	var exprs, briefs []string
	for _, p := range f.all {
		t := r.fieldType(p, p.name, depth+1)
		exprs = append(exprs, n.key(p, t))
		briefs = append(briefs, briefKey(p, t))
	}
	brief := "{" + strings.Join(briefs, ", ") + "}"
	if len(brief) > 2*longestBrief {
		brief = "dict[str, Any]"
	}
	body := strings.Join(f.entries(exprs), ",\n        ")
	if n.bodies[body] == "" {
		n.bodies[body] = n.define(hint, body, f, exprs)
	}
	return single(n.bodies[body], brief)
}

// entries are the keys as literals, with their types.
func (f *fields) entries(exprs []string) (entries []string) {
	for i, p := range f.all {
		entries = append(entries, literal(p.name)+": "+exprs[i])
	}
	return entries
}

// define writes a class. If a key is no name, or would hide one that the class
// needs, its keys stay literals.
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

// key is the type of one key, as the class says it.
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

// keywords are the names that Python has for itself everywhere.
var keywords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`False None True and as assert async await break class continue def del elif else except
		finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`) {
		m[w] = true
	}
	return m
}()

// isAttribute says whether a key can stand in a class: an ASCII name that
// Python neither reserves nor changes, and that no type in the class is called.
func isAttribute(name string) bool {
	if name == "" || len(name) > 60 || strings.HasPrefix(name, "__") || known[strings.TrimPrefix(name, "_")] != "" || isDigit(name[0]) || keywords[name] {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) < 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// class takes a name for a class, made of hint.
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
