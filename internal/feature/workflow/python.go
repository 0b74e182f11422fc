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

// python returns the Python of a value.
func (c *compiler) python(v *Value, in *scope) string { return layout(c, value(c, v, in)) }

func value(c *compiler, v *Value, in *scope) piece {
	switch {
	case v == nil:
		return piece{text: "None"}
	case v.Map != nil:
		return c.mapping(v.Map, in)
	case v.List != nil:
		return c.join("[", "]", len(v.List), func(i int) piece { return value(c, v.List[i], in) })
	case len(v.Template) == 1 && v.Template[0].Expr != "":
		return piece{text: c.expression(v.Template[0], in)}
	case v.Template != nil:
		return piece{text: c.template(v.Template, in)}
	}
	return piece{text: pythonConstant(v.Plain)}
}

func (c *compiler) mapping(fields []Field, in *scope) piece {
	return c.join("{", "}", len(fields), func(i int) piece {
		p := value(c, fields[i].Value, in)
		p.prefix = pythonText(fields[i].Name) + ": "
		return p
	})
}

// piece is a part of an expression: a text, or items in brackets, one in each line.
type piece struct {
	prefix      string
	text        string
	open, close string // "" for a text
	items       []piece
}

// maxWidth is the length of a list above which it is written in several lines.
const maxWidth = 100

// join puts items in brackets, in one line if it is short.
func (c *compiler) join(open, close string, n int, item func(int) piece) piece {
	p := piece{open: open, close: close}
	length, short := 4*c.indent, true
	c.indent++
	for i := range n {
		if c.stopped() {
			break
		}
		it := item(i)
		length += len(it.prefix) + len(it.text) + 2
		short = short && it.open == "" && length <= maxWidth && !strings.Contains(it.text, "\n")
		p.items = append(p.items, it)
	}
	c.indent--
	if !short {
		return p
	}
	texts := make([]string, len(p.items))
	for i, it := range p.items {
		texts[i] = it.prefix + it.text
	}
	return piece{text: open + strings.Join(texts, ", ") + close}
}

// layout returns the text of a piece. Its lines after the first are indented again when they are written.
func layout(c *compiler, p piece) string {
	var b strings.Builder
	layoutAt(c, &b, p, 0)
	return b.String()
}

func layoutAt(c *compiler, b *strings.Builder, p piece, depth int) {
	b.WriteString(p.prefix)
	if p.open == "" {
		for i, line := range strings.Split(p.text, "\n") {
			if i > 0 {
				layoutLine(c, b, depth)
			}
			b.WriteString(line)
		}
		return
	}
	b.WriteString(p.open)
	for _, it := range p.items {
		layoutLine(c, b, depth+1)
		layoutAt(c, b, it, depth+1)
		b.WriteByte(',')
	}
	layoutLine(c, b, depth)
	b.WriteString(p.close)
}

// layoutLine begins a line, unless the code would be too long.
func layoutLine(c *compiler, b *strings.Builder, depth int) {
	if b.Len() > maxCode {
		c.size = maxCode + 1
		return
	}
	b.WriteByte('\n')
	for range depth {
		b.WriteString("    ")
	}
}

// Uses of an expression, for the check in the sandbox.
const (
	asTest = "test" // of if and until
	asList = "list" // of over
)

// test returns the Python of a condition.
func test(c *compiler, v *Value, in *scope) string { return used(c, v, in, asTest) }

// iterable returns the Python of the iterable of a loop.
func iterable(c *compiler, v *Value, in *scope) string { return used(c, v, in, asList) }

func used(c *compiler, v *Value, in *scope, as string) string {
	if v == nil || len(v.Template) != 1 || v.Template[0].Expr == "" {
		return c.python(v, in)
	}
	text := c.expression(v.Template[0], in)
	if _, reported := constants[v.Template[0].Expr]; !reported {
		c.expressions[len(c.expressions)-1].Use = as
	}
	return text
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
	c.expressions = append(c.expressions, Expression{pycode.Part{Source: p.Expr, Known: known, Steps: in.mentioned(p.Expr)}, c.file, p.Pos})
	if c.unparsable[place(c.file, p.Pos)] {
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
	return layout(c, c.join("(", ")", len(fields), func(i int) piece {
		p := value(c, fields[i].Value, in)
		p.prefix = python[fields[i].Name] + "="
		return p
	}))
}

// header writes imports and the helpers that the code uses.
func (c *compiler) header() {
	c.write("")
	if c.servers {
		c.write("import servers")
	}
	for _, name := range names(c.skills) {
		if as := c.skills[name].as; as != name {
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
	{"repeat_step", `def repeat_step(attempts, seconds, work):
    """Call work until it succeeds, waiting seconds, then twice as long, and so on.

    It is not called again if a call in it failed and may have taken effect.
    """
    for attempt in range(attempts - 1):
        try:
            with ToolError.watch() as unknown:
                return work()
        except Exception as error:
            if unknown or ToolError.may_have_effect(error):
                raise
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
