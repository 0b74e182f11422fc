package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
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
	servers skills inputs steps time itertools retry approve answer fill_form error text goto count collected value`)

// python returns the Python of a value.
func (c *compiler) python(v *Value, in *scope) string {
	switch {
	case v == nil:
		return "None"
	case v.Map != nil:
		return c.mapping(v.Map, in)
	case v.List != nil:
		return c.join("[", "]", len(v.List), func(i int) string { return c.python(v.List[i], in) })
	case len(v.Template) == 1 && v.Template[0].Expr != "":
		return c.expression(v.Template[0], in)
	case v.Template != nil:
		return c.template(v.Template, in)
	}
	return pythonConstant(v.Plain)
}

func (c *compiler) mapping(fields []Field, in *scope) string {
	return c.join("{", "}", len(fields), func(i int) string {
		return pythonText(fields[i].Name) + ": " + c.python(fields[i].Value, in)
	})
}

// maxWidth is the length of a list above which it is written in several lines.
const maxWidth = 100

// join writes a list of items in brackets, in one line if it is short.
func (c *compiler) join(open, close string, n int, item func(int) string) string {
	items := make([]string, n)
	length := 0
	for i := range n {
		c.indent++
		items[i] = item(i)
		c.indent--
		length += len(items[i]) + 2
	}
	if length+4*c.indent <= maxWidth && !slices.ContainsFunc(items, func(s string) bool { return strings.Contains(s, "\n") }) {
		return open + strings.Join(items, ", ") + close
	}
	// The lines after the first are indented when they are written.
	for i := range items {
		items[i] = "    " + strings.ReplaceAll(items[i], "\n", "\n    ")
	}
	return open + "\n" + strings.Join(items, ",\n") + ",\n" + close
}

// expression returns the Python of one expression, so that it can be part of another one.
func (c *compiler) expression(p Part, in *scope) string {
	source, problems := rewrite(p.Expr, in)
	for _, found := range problems {
		c.add(within(p, found.at), found.hint, "%s", found.text)
	}
	known := []string{"steps", "inputs"}
	for s := in; s != nil; s = s.outer {
		if s.loop != "" {
			known = append(known, s.loop)
		}
	}
	c.expressions = append(c.expressions, Expression{execution.Part{Source: p.Expr, Known: known, Steps: in.visible()}, c.file, p.Pos})
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
func (c *compiler) template(parts []Part, in *scope) string {
	var b strings.Builder
	b.WriteString(`f"`)
	for _, p := range parts {
		if p.Expr == "" {
			text := pythonText(p.Text)
			b.WriteString(strings.NewReplacer("{", "{{", "}", "}}").Replace(text[1 : len(text)-1]))
			continue
		}
		source := c.expression(p, in)
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

// arguments returns the keyword arguments of a call, in brackets.
func (c *compiler) arguments(fields []Field, in *scope) string {
	var wire []string
	for _, f := range fields {
		wire = append(wire, f.Name)
	}
	python := tool.ParamNames(wire)
	return c.join("(", ")", len(fields), func(i int) string {
		return python[fields[i].Name] + "=" + c.python(fields[i].Value, in)
	})
}

// header writes imports and the helpers that the code uses.
func (c *compiler) header() {
	c.write("")
	if c.servers {
		c.write("import servers")
	}
	for _, name := range names(c.skills) {
		if as := c.skills[name]; as != name {
			c.write("from skills import %s as %s", name, as)
		} else {
			c.write("from skills import %s", name)
		}
	}
	for _, h := range helpers {
		if c.helpers[h.name] {
			c.write("")
			c.write("%s", h.code)
		}
	}
}

// helpers are functions that compiled code uses.
var helpers = []struct{ name, code string }{
	{"retry", `def retry(attempts, seconds, work):
    """Call work until it succeeds, waiting seconds, then twice as long, and so on."""
    for attempt in range(attempts - 1):
        try:
            return work()
        except Exception as error:
            print(f"attempt {attempt + 1} of {attempts} failed: {error}")
            sleep_for(seconds * 2**attempt)
    return work()
`}, {"approve", `def approve(question):
    """Ask a person for approval, and raise an error without it."""
    if not ask(question, {"type": "boolean"}):
        raise PermissionError(f"not approved: {question}")
    return True
`}, {"answer", `def answer(question, schema):
    """Ask a person, and raise an error without an answer."""
    value = ask(question, schema)
    if value is None:
        raise PermissionError(f"not answered: {question}")
    return value
`}, {"fill_form", `def fill_form(file, save_as, data=None, **options):
    """Fill in a form, and save the filled copy as another file."""
    form = forms.open(file).fill(data, **options)
    form.save(save_as)
    return {"file": save_as, "values": form.values, "unused": form.unused, "review": form.review()}
`}}
