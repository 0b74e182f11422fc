package codegen

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// function describes the Python function of one tool.
type function struct {
	def    tool.Definition
	name   string // in Python
	names  *namespace
	params []param // required ones first, in the order of the schema
	more   typ     // type of additional arguments; empty if none are allowed
	bare   bool    // the schema does not describe its arguments
	result typ
	input  *reader
	// inferred reports whether the result type was inferred and not declared: the
	// output schema has "inferred": true.
	inferred bool
	nested   bool // keys of arguments have descriptions
}

// param is one parameter.
type param struct {
	wire, id string
	typ      typ
	required bool
	usual    bool    // an example has it
	value    string  // default as a Python expression; "" if there is none
	absent   bool    // None is a value of its own, or the tool requires one: the default is _sandpiper.absent
	schema   *object // nil if there is none
}

func newFunction(d tool.Definition, name string) *function {
	n := newNamespace(name)
	f := &function{def: d, name: name, names: n}
	f.input = newReader(parseSchema(d.Input), n, false)
	var all fields
	f.input.fields(f.input.root, &all, certain, 0)
	f.params = f.parameters(&all)
	f.more, f.bare = f.extraType(&all)
	f.nested = len(n.notes) > 0
	f.result = anything
	if declared, _ := d.Returns(); len(declared) > 0 {
		output := newReader(parseSchema(declared), n, true)
		f.result = output.typ(output.root, "result", 0)
		o, _ := output.root.(*object)
		f.inferred = o.at("inferred") == true
	}
	return f
}

// parameters returns a parameter for each property of the input schema, required
// ones first. A required property with a default is optional: it is sent with the default
// if it is omitted (see schema.Schema.Fill).
func (f *function) parameters(all *fields) []param {
	ids := tool.ParamNames(all.names())
	var required, optional []param
	for _, one := range all.all {
		p := param{wire: one.name, id: ids[one.name], required: one.required, usual: one.usual, schema: one.schema()}
		p.typ = f.input.fieldType(one, one.name, 1)
		p.setDefault()
		if p.required {
			required = append(required, p)
		} else {
			optional = append(optional, p)
		}
	}
	return append(required, optional...)
}

// setDefault sets the default of a parameter that may be omitted.
func (p *param) setDefault() {
	declared, ok := p.schema.find("default")
	expr, scalar := value(p.typ, declared)
	nullable := p.typ.null || p.typ.any
	if p.required {
		p.required = !ok || !scalar && !p.typ.holds(declared)
		p.usual = p.required
		if p.required {
			return
		}
		nullable = true
	}
	if scalar {
		p.value = expr
	}
	p.absent = nullable
	if p.value == "" && !nullable {
		p.typ.null = true
	}
}

// holds reports whether t has values like v, an object, array or null.
func (t typ) holds(v any) bool {
	of := func(prefixes ...string) bool {
		return t.any || slices.ContainsFunc(t.others, func(a alternative) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(a.brief, p) })
		})
	}
	switch v.(type) {
	case nil:
		return t.any || t.null
	case []any:
		return of("list[", "tuple[")
	case *object:
		return of("dict[", "{")
	}
	return false
}

// extraType returns the type of additional arguments. A schema that names properties and has no
// additionalProperties allows none: authors rarely rely on the standard's default. bare reports that
// the schema neither names properties nor describes additional ones.
func (f *function) extraType(all *fields) (t typ, bare bool) {
	if all.closed {
		return typ{}, false
	}
	for _, o := range all.parts {
		more, declared := o.find("additionalProperties")
		_, patterns := o.at("patternProperties").(*object)
		if declared && more != false || patterns {
			t = t.or(f.input.additionalType(o, "more", 1))
		}
		if others, declared := o.find("unevaluatedProperties"); declared && others != false {
			t = t.or(f.input.typ(others, "more", 1))
		}
	}
	if t.empty() && all.opaque {
		return anything, false
	}
	if t.empty() && all.namesNone() {
		return anything, true
	}
	return t, false
}

// value returns a default as a Python expression. It reports false for a value
// that is not a scalar or not of type t.
func value(t typ, v any) (expr string, ok bool) {
	switch v := v.(type) {
	case string:
		return literal(v), len(v) <= maxLiteralLen && t.accepts(literal(v), "str")
	case bool:
		return boolean(v), t.accepts(boolean(v), "bool")
	case json.Number:
		if s, ok := integer(v); ok && (t.accepts(s, "int") || t.accepts(s, "float")) {
			return s, true
		}
		if s, ok := decimal(v); ok && t.accepts(s, "float") {
			return s, true
		}
	}
	return "", false
}

// accepts reports whether t contains the literal expr or the type base.
func (t typ) accepts(expr, base string) bool {
	for _, l := range t.literals {
		if l.expr == expr {
			return true
		}
	}
	for _, o := range t.others {
		if o.brief == base {
			return true
		}
	}
	return t.any
}

func decimal(v json.Number) (string, bool) {
	x, err := v.Float64()
	if err != nil || math.IsInf(x, 0) {
		return "", false
	}
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s, true
}

// module returns the source of the tool's module.
func (f *function) module(server string) []byte {
	parts := f.paramList()
	result := f.result.expr(f.names)
	doc := docstring(f.doc(), "    ")
	call := f.moduleAlias()
	var b strings.Builder
	b.WriteString("import _sandpiper")
	if call != "_sandpiper" {
		b.WriteString(" as " + call)
	}
	b.WriteString("\n")
	if imports := f.names.imports(); imports != "" {
		b.WriteString(imports)
	}
	b.WriteString("\n\n")
	for _, c := range f.names.classes {
		b.WriteString(c + "\n\n")
	}
	b.WriteString("def " + f.name + "(")
	if line := strings.Join(parts, ", "); len(line)+len(f.name)+len(result) < 100 {
		b.WriteString(line)
	} else {
		b.WriteString("\n    " + strings.Join(parts, ",\n    ") + ",\n")
	}
	b.WriteString(") -> " + result + ":\n    " + doc + "\n")
	b.WriteString("    ")
	if result != "None" { // mypy rejects returning a value, even Any, from a function that returns None
		b.WriteString("return ")
	}
	b.WriteString(call + ".call(")
	f.arguments(&b, server)
	b.WriteString(")\n")
	return []byte(b.String())
}

// paramList returns the parameters with their types, as written in the module.
func (f *function) paramList() (parts []string) {
	for _, p := range f.params {
		value := p.defaultText()
		if p.absent && p.value == "" {
			value = " = " + f.moduleAlias() + ".absent"
		}
		parts = append(parts, p.id+": "+p.typ.expr(f.names)+value)
	}
	if !f.more.empty() {
		parts = append(parts, "**"+f.moreName()+": "+f.more.expr(f.names))
	}
	return parts
}

func (p param) defaultText() string {
	switch {
	case p.required:
		return ""
	case p.value != "":
		return " = " + p.value
	case p.absent && !p.defaultsToNull():
		return " = ..."
	}
	return " = None"
}

func (p param) defaultsToNull() bool {
	declared, ok := p.schema.find("default")
	return ok && declared == nil
}

// arguments writes the arguments of the call: the server, the tool, the arguments that are sent
// unless they are absent, and those that are omitted also if they are None.
func (f *function) arguments(b *strings.Builder, server string) {
	var required, optional []string
	for _, p := range f.params {
		entry := literal(p.wire) + ": " + p.id
		if p.required || p.absent {
			required = append(required, entry)
		} else {
			optional = append(optional, entry)
		}
	}
	if !f.more.empty() {
		required = append(required, "**"+f.moreName())
	}
	args := []string{literal(server), literal(f.def.Tool), braced(required), braced(optional)}
	if line := strings.Join(args, ", "); len(line) < 90 && !strings.Contains(line, "\n") {
		b.WriteString(line)
		return
	}
	b.WriteString("\n        " + strings.Join(args, ",\n        ") + ",\n    ")
}

// braced returns a dict with these entries, on several lines if it is long.
func braced(entries []string) string {
	if line := "{" + strings.Join(entries, ", ") + "}"; len(line) < 90 {
		return line
	}
	return "{\n            " + strings.Join(entries, ",\n            ") + ",\n        }"
}

// moreName returns the name of the parameter for additional arguments.
func (f *function) moreName() string { return f.unusedName("more") }

// moduleAlias returns the name under which the module _sandpiper is imported. It
// differs from "_sandpiper" if a parameter has that name.
func (f *function) moduleAlias() string { return f.unusedName("_sandpiper") }

func (f *function) unusedName(name string) string {
	for i := 0; i < len(f.params); i++ {
		if f.params[i].id == name {
			name, i = name+"_", -1
		}
	}
	return name
}
