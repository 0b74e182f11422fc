package workflow

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// reservedNames are names that steps cannot have in the code: keywords, builtins that expressions
// commonly use, the globals of executions, and names that the compiler writes.
var reservedNames = strings.Fields(`False None True and as assert async await break class continue def del elif else except
	finally for from global if import in is lambda nonlocal not or pass raise return try while with yield match case type
	abs all any ascii bin bool bytearray bytes callable chr compile complex dict dir divmod enumerate eval exec filter float
	format frozenset getattr globals hasattr hash help hex id input int isinstance issubclass iter len list locals map max
	memoryview min next object oct open ord pow print property range repr reversed round set setattr slice sorted staticmethod
	str sum super tuple vars zip Exception PermissionError RuntimeError TimeoutError ToolError BaseException
	json re math statistics collections datetime date timedelta workspace read_file write_file list_files delete_file
	save_skill load_skill list_skills search_skills save_state get_state filter_by_field summarize_list aggregate_stats
	format_output progress ask ask_llm checkpoint show search_tools get_tool_definition call_tool parallel step sleep_until
	sleep_for wait_for time_limit tokenize_pii detokenize_pii fetch forms display result
	servers skills inputs steps time itertools retry repeat_step approve answer fill_form error text goto count collected value`)

// valueWriter writes values as Python and collects their expressions.
type valueWriter struct {
	findings
	output
	unparsable  map[Place]bool // expressions and code
	expressions []Expression
}

// python returns the Python of a value.
func (w *valueWriter) python(v *Value, in *scope) string {
	switch {
	case v == nil:
		return "None"
	case v.Map != nil:
		return w.mapping(v.Map, in)
	case v.List != nil:
		return w.join("[", "]", len(v.List), func(i int) string { return w.python(v.List[i], in) })
	case len(v.Template) == 1 && v.Template[0].Expr != "":
		return w.expression(v.Template[0], in)
	case v.Template != nil:
		return w.template(v.Template, in)
	}
	return pythonConstant(v.Plain)
}

func (w *valueWriter) mapping(fields []Field, in *scope) string {
	return w.join("{", "}", len(fields), func(i int) string {
		return pythonText(fields[i].Name) + ": " + w.python(fields[i].Value, in)
	})
}

// arguments returns the keyword arguments of a call, in brackets.
func (w *valueWriter) arguments(fields []Field, in *scope) string {
	var wire []string
	for _, f := range fields {
		wire = append(wire, f.Name)
	}
	python := tool.ParamNames(wire)
	return w.join("(", ")", len(fields), func(i int) string {
		return python[fields[i].Name] + "=" + w.python(fields[i].Value, in)
	})
}

// maxWidth is the length of a list above which it is written in several lines.
const maxWidth = 100

// join puts items in brackets, in one line if it is short, else each in a line of its own.
func (w *valueWriter) join(open, close string, n int, item func(int) string) string {
	var items []string
	width, length, short := 4*w.indent, 0, true
	w.indent++
	for i := range n {
		if w.stopped() {
			break
		}
		it := item(i)
		width += len(it) + 2
		short = short && width <= maxWidth && !strings.Contains(it, "\n")
		if length += len(it); length > maxCode {
			w.size = maxCode + 1
		}
		items = append(items, it)
	}
	w.indent--
	if short || w.stopped() {
		return open + strings.Join(items, ", ") + close
	}
	const indent = "\n    "
	return open + indent + strings.ReplaceAll(strings.Join(items, ",\n"), "\n", indent) + ",\n" + close
}

// Uses of an expression, for the check in the sandbox.
const (
	asTest = "test" // of if and until
	asList = "list" // of over
)

// pythonAs returns the Python of a value that is one expression with a use.
func (w *valueWriter) pythonAs(v *Value, in *scope, as string) string {
	if v == nil || len(v.Template) != 1 || v.Template[0].Expr == "" {
		return w.python(v, in)
	}
	text := w.expression(v.Template[0], in)
	if _, reported := constants[v.Template[0].Expr]; !reported {
		w.expressions[len(w.expressions)-1].Use = as
	}
	return text
}

// expression returns the Python of one expression, so that it can be part of another one.
func (w *valueWriter) expression(p Part, in *scope) string {
	source, problems := rewrite(p.Expr, in)
	for _, found := range problems {
		w.add(within(p, found.at), found.hint, "%s", found.text)
	}
	known := []string{"steps", "inputs"}
	for s := in; s != nil; s = s.outer {
		if s.loop != "" {
			known = append(known, s.loop)
		}
	}
	w.expressions = append(w.expressions, Expression{pycode.Part{Source: p.Expr, Known: known, Steps: in.mentioned(p.Expr)}, w.findings.file, p.Pos})
	if w.unparsable[place(w.findings.file, p.Pos)] {
		return notKnown
	}
	if needsBrackets(source) {
		return "(" + source + ")"
	}
	return source
}

// within returns the position of an offset of an expression.
func within(p Part, offset int) Pos {
	before := p.Expr[:min(offset, len(p.Expr))]
	if n := strings.Count(before, "\n"); n > 0 {
		return Pos{p.Pos.Line + n, 1}
	}
	return Pos{p.Pos.Line, p.Pos.Column + len([]rune(before))}
}

// needsBrackets reports whether an expression cannot be an argument or item as it is.
func needsBrackets(source string) bool {
	depth := 0
	for _, t := range tokens(source) {
		switch {
		case t.kind == otherToken && strings.Contains("([{", t.text):
			depth++
		case t.kind == otherToken && strings.Contains(")]}", t.text):
			depth--
		case depth > 0:
		case t.kind == otherToken && strings.Contains(",:=*", t.text):
			return true
		case t.kind == nameToken && (t.text == "for" || t.text == "yield" || t.text == "if"):
			return true
		}
	}
	return false
}

// template returns an f-string.
func (w *valueWriter) template(parts []Part, in *scope) string {
	var b strings.Builder
	b.WriteString(`f"`)
	for _, p := range parts {
		if p.Expr == "" {
			text := pythonText(p.Text)
			b.WriteString(strings.NewReplacer("{", "{{", "}", "}}").Replace(text[1 : len(text)-1]))
			continue
		}
		source := w.expression(p, in)
		if strings.ContainsAny(source, "!:={") && !strings.HasPrefix(source, "(") {
			source = "(" + source + ")"
		}
		b.WriteString("{" + source + "}")
	}
	b.WriteString(`"`)
	return b.String()
}

// pythonConstant returns the literal of a JSON value.
func pythonConstant(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return pythonText(v)
	case json.Number:
		return v.String()
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = pythonConstant(v[i])
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		for _, name := range names(v) {
			items = append(items, pythonText(name)+": "+pythonConstant(v[name]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	panic(fmt.Sprintf("workflow: %T is no JSON value", v)) // the reader makes no others
}

// constantJSON returns the literal of JSON.
func constantJSON(raw json.RawMessage) string { return pythonConstant(decoded(raw)) }

// decoded decodes JSON that the reader has encoded.
func decoded(raw json.RawMessage) (v any) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	_ = d.Decode(&v)
	return v
}
