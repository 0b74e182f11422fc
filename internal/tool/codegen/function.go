package codegen

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// function is the function of one tool.
type function struct {
	def    tool.Definition
	name   string // in Python
	names  *namespace
	params []param // required ones first, in the order of the schema
	more   typ     // of arguments that are not named; empty if none are allowed
	result typ
	input  *reader
	// inferred reports whether the result type was inferred and not declared: the
	// output schema has "inferred": true.
	inferred bool
}

// param is one parameter.
type param struct {
	wire, id string
	typ      typ
	required bool
	value    string  // its default in Python; "" if there is none
	schema   *object // nil if nothing is said of it
}

func newFunction(d tool.Definition, name string) *function {
	n := newNamespace(name)
	f := &function{def: d, name: name, names: n}
	f.input = newReader(document(d.Input), n, false)
	f.params = f.parameters()
	f.more = f.unnamed()
	f.result = anything
	if declared, _ := d.Returns(); len(declared) > 0 {
		output := newReader(document(declared), n, true)
		f.result = output.typ(output.root, "result", 0)
		o, _ := output.root.(*object)
		f.inferred = o.at("inferred") == true
	}
	return f
}

// parameters are the properties of the input schema.
func (f *function) parameters() []param {
	var all fields
	f.input.fields(f.input.root, &all, true, 0)
	names := make([]string, len(all.all))
	for i, p := range all.all {
		names[i] = p.name
	}
	ids := tool.ParamNames(names)
	var required, optional []param
	for _, one := range all.all {
		p := param{wire: one.name, id: ids[one.name], required: one.required, schema: one.schema()}
		p.typ = f.input.fieldType(one, one.name, 1)
		if p.required {
			required = append(required, p)
			continue
		}
		if expr, ok := value(p.typ, p.schema.at("default")); ok {
			p.value = expr
		}
		if p.value == "" && !p.typ.any {
			p.typ.null = true
		}
		optional = append(optional, p)
	}
	return append(required, optional...)
}

// unnamed is the type of the arguments that a schema says it takes besides. A
// schema that does not speak of them takes none, as those who write one mean it.
func (f *function) unnamed() typ {
	o, ok := f.input.root.(*object)
	if !ok {
		return anything
	}
	more, said := o.find("additionalProperties")
	_, patterns := o.at("patternProperties").(*object)
	if said && more != false || patterns {
		return f.input.others(o, "more", 1)
	}
	return typ{}
}

// value is a default as Python writes it, if it is a simple one of type t.
func value(t typ, v any) (expr string, ok bool) {
	switch v := v.(type) {
	case string:
		return literal(v), len(v) <= longestLiteral && t.takes(literal(v), "str")
	case bool:
		return boolean(v), t.takes(boolean(v), "bool")
	case json.Number:
		if s, ok := integer(v); ok && (t.takes(s, "int") || t.takes(s, "float")) {
			return s, true
		}
		if s, ok := decimal(v); ok && t.takes(s, "float") {
			return s, true
		}
	}
	return "", false
}

// takes says whether a value of the base type fits t.
func (t typ) takes(expr, base string) bool {
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

// module is the source of the tool's module.
func (f *function) module(server string) []byte {
	parts := f.head()
	result := f.result.expr(f.names)
	doc := docstring(f.doc(), "    ")
	call := f.alias()
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
	if result != "None" { // a function without a result returns no value, not even one of type Any
		b.WriteString("return ")
	}
	b.WriteString(call + ".call(")
	f.arguments(&b, server)
	b.WriteString(")\n")
	return []byte(b.String())
}

// head is the parameters with their types, for the module.
func (f *function) head() (parts []string) {
	for _, p := range f.params {
		parts = append(parts, p.id+": "+p.typ.expr(f.names)+p.initial())
	}
	if !f.more.empty() {
		parts = append(parts, "**"+f.moreName()+": "+f.more.expr(f.names))
	}
	return parts
}

func (p param) initial() string {
	switch {
	case p.required:
		return ""
	case p.value != "":
		return " = " + p.value
	}
	return " = None"
}

// arguments writes what the function passes on: the tool, the required
// arguments, and those that are left out if they are None.
func (f *function) arguments(b *strings.Builder, server string) {
	var required, optional []string
	for _, p := range f.params {
		entry := literal(p.wire) + ": " + p.id
		if p.required {
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

// braced is the entries of a dict, over several lines if they are many.
func braced(entries []string) string {
	if line := "{" + strings.Join(entries, ", ") + "}"; len(line) < 90 {
		return line
	}
	return "{\n            " + strings.Join(entries, ",\n            ") + ",\n        }"
}

// moreName is what the unnamed arguments are called.
func (f *function) moreName() string { return f.free("more") }

// alias is what the function calls the module that it calls: a parameter may
// have its name.
func (f *function) alias() string { return f.free("_sandpiper") }

func (f *function) free(name string) string {
	for i := 0; i < len(f.params); i++ {
		if f.params[i].id == name {
			name, i = name+"_", -1
		}
	}
	return name
}
