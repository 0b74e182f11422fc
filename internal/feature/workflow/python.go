package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
)

// valueWriter writes values as Python and collects their expressions.
type valueWriter struct {
	findings
	output
	replaced    map[Place]string // expressions and code
	expressions []Expression
	scopes      []pycode.Scope
}

// python returns the Python of a value.
func (w *valueWriter) python(v *Value, in int) string {
	switch {
	case v == nil:
		return "None"
	case v.Map != nil:
		return w.mapping(v.Map, in)
	case v.List != nil:
		return w.join("[", "]", len(v.List), func(i int) string { return w.python(v.List[i], in) })
	case v.isExpression():
		return w.expression(v.Template[0], pycode.Part{Scope: in})
	case v.Template != nil:
		return w.template(v.Template, in)
	}
	return pythonConstant(v.Plain)
}

func (w *valueWriter) mapping(fields []Field, in int) string {
	return w.join("{", "}", len(fields), func(i int) string {
		return strconv.Quote(fields[i].Name) + ": " + w.python(fields[i].Value, in)
	})
}

// arguments returns the keyword arguments of a call, in brackets.
func (w *valueWriter) arguments(fields []Field, in int) string {
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
	length := 4 * w.indent
	w.indent++
	for i := 0; i < n && !w.stopped(); i++ {
		items = append(items, item(i))
		if length += len(items[i]) + 2; length > maxCode {
			w.size = maxCode + 1
		}
	}
	w.indent--
	text := strings.Join(items, ", ")
	if w.stopped() || length <= maxWidth && !strings.Contains(text, "\n") || slices.Contains(pysource.InStrings(text), true) {
		return open + text + close
	}
	const indent = "\n    "
	return open + indent + strings.ReplaceAll(strings.Join(items, ",\n"), "\n", indent) + ",\n" + close
}

// test returns the Python of a condition. The hint is for one that is always true.
func (w *valueWriter) test(v *Value, in int, hint, always, never string) string {
	if v == nil || !v.isExpression() { // the reader reported it
		return w.python(v, in)
	}
	return w.expression(v.Template[0], pycode.Part{Scope: in, Always: []pycode.Problem{{Message: never}, {Message: always, Hint: hint}}})
}

// expression returns the Python of one expression, so that it can be part of another one. The check in
// the sandbox examines it as a part.
func (w *valueWriter) expression(p Part, part pycode.Part) string {
	part.Source = p.Expr
	w.expressions = append(w.expressions, Expression{part, w.findings.file, p.Pos})
	source := pysource.OneLine(cmp.Or(w.replaced[place(w.findings.file, p.Pos)], p.Expr))
	if separate().MatchString(source) && pysource.Closing(source) != len(source) {
		return "(" + source + ")"
	}
	return source
}

// separate matches expressions that may need brackets where they are an argument or item.
var separate = lazyregexp.New(`[,:=*]|\b(for|if|yield)\b`)

// template returns an f-string.
func (w *valueWriter) template(parts []Part, in int) string {
	var b strings.Builder
	b.WriteString(`f"`)
	for _, p := range parts {
		if p.Expr == "" {
			text := strconv.Quote(p.Text)
			b.WriteString(strings.NewReplacer("{", "{{", "}", "}}").Replace(text[1 : len(text)-1]))
			continue
		}
		source := w.expression(p, pycode.Part{Scope: in})
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
		return strconv.Quote(v)
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
			items = append(items, strconv.Quote(name)+": "+pythonConstant(v[name]))
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
