package workflow

import (
	"fmt"
	"strings"
)

// problem is an error at an offset of an expression.
type problem struct {
	at         int
	text, hint string
}

// rewriter replaces references in an expression.
type rewriter struct {
	scope    *scope
	out      strings.Builder
	problems []problem
	depth    []bool // for each open bracket, whether a chain of attributes continues after it
	chain    bool   // the text so far ends with a value whose attributes are keys
	nested   int    // f-strings around the expression
}

// rewrite returns the Python of an expression: steps.a.result.rows[0].id becomes
// a["rows"][0]["id"].
func rewrite(expr string, in *scope) (string, []problem) {
	r := &rewriter{scope: in}
	return r.expression(expr), r.problems
}

func (r *rewriter) expression(expr string) string {
	list := tokens(expr)
	for i := 0; i < len(list); {
		i = r.token(list, i)
	}
	return strings.TrimSpace(r.out.String())
}

// full reports whether further problems are dropped.
func (r *rewriter) full() bool { return len(r.problems) >= maxFindings }

func (r *rewriter) add(at int, hint, format string, args ...any) {
	if !r.full() {
		r.problems = append(r.problems, problem{at, fmt.Sprintf(format, args...), hint})
	}
}

// token writes token i and returns the index of the next one to write.
func (r *rewriter) token(list []token, i int) int {
	t := list[i]
	switch {
	case t.kind == commentToken:
		return i + 1
	case t.kind == spaceToken:
		r.out.WriteByte(' ')
		return i + 1
	case t.kind == stringToken:
		r.chain = false
		r.string(t)
		return i + 1
	case t.text == "." && r.chain:
		return r.key(list, i)
	case t.text == "[" || t.text == "(" || t.text == "{":
		r.depth = append(r.depth, r.chain && t.text == "[")
		r.chain = false
	case t.text == "]" || t.text == ")" || t.text == "}":
		r.chain = false
		if n := len(r.depth); n > 0 {
			r.chain, r.depth = r.depth[n-1], r.depth[:n-1]
		}
	case t.kind == nameToken && r.scope.isRoot(t.text) && previous(list, i) != "." && !isKeyword(list, i):
		return r.root(list, i)
	default:
		r.chain = false
	}
	r.out.WriteString(t.text)
	return i + 1
}

// string writes a string literal.
func (r *rewriter) string(t token) {
	done := 0
	parts := formatted(t.text)
	if len(parts) > 0 && r.nested == maxNested {
		r.add(t.at, "use a variable in the code of a step", "f-strings are nested more than %d deep", maxNested)
		parts = nil
	}
	for _, p := range parts {
		inner := &rewriter{scope: r.scope, nested: r.nested + 1}
		text := inner.expression(p.text)
		for _, found := range inner.problems {
			r.add(t.at+p.at+found.at, found.hint, "%s", found.text)
		}
		r.out.WriteString(t.text[done:p.at] + text)
		done = p.at + len(p.text)
	}
	r.out.WriteString(t.text[done:])
}

// key writes the attribute whose dot is token i: a key, or a method if it is called.
func (r *rewriter) key(list []token, i int) int {
	name := next(list, i)
	if name >= len(list) || list[name].kind != nameToken {
		r.chain = false
		r.out.WriteByte('.')
		return i + 1
	}
	after := next(list, name)
	if after < len(list) && list[after].text == "(" {
		r.chain = false
		r.out.WriteString("." + list[name].text)
	} else {
		r.out.WriteString("[" + pythonText(list[name].text) + "]")
	}
	return name + 1
}

// root writes the reference that begins with token i.
func (r *rewriter) root(list []token, i int) int {
	t := list[i]
	if t.text != "steps" && t.text != "inputs" || t.text == r.scope.loop {
		r.chain = true
		r.out.WriteString(t.text)
		return i + 1
	}
	dot := next(list, i)
	name := next(list, dot)
	if t.text == "inputs" {
		return r.input(list, i, name)
	}
	if name >= len(list) || list[dot].text != "." || list[name].kind != nameToken {
		r.add(t.at, "write steps.NAME.result", "steps is used without the name of a step")
		r.out.WriteString("None")
		return i + 1
	}
	return r.step(list, name)
}

// input writes a reference to an input; its name is token at.
func (r *rewriter) input(list []token, i, at int) int {
	r.out.WriteString("inputs")
	r.chain = true
	all := r.scope.top().inputs
	if name := attribute(list, i); !r.full() && !r.scope.top().anyInput && name != "" && !contains(all, name) && (at+1 >= len(list) || list[next(list, at)%len(list)].text != "(") {
		r.add(list[at].at, nearestOrNone(name, all, "inputs declares none"), "there is no input %.60q", name)
	}
	return i + 1
}

func contains(all []string, name string) bool {
	for _, n := range all {
		if n == name {
			return true
		}
	}
	return false
}

// step writes a reference to a step, whose name is token at, with .result or .error.
func (r *rewriter) step(list []token, at int) int {
	name := list[at].text
	v := r.scope.find(name)
	dot := next(list, at)
	field := next(list, dot)
	if v == nil {
		r.unknown(list[at])
		v = &variable{name: name, error: name}
	}
	if dot >= len(list) || list[dot].text != "." || field >= len(list) || list[field].text != "result" && list[field].text != "error" {
		place, hint := list[at].at, fmt.Sprintf("write steps.%s.result", name)
		if field < len(list) && list[dot].text == "." && list[field].kind == nameToken {
			place, hint = list[field].at, nearest(list[field].text, []string{"error", "result"})
		}
		r.add(place, hint, "a step has result and error only")
		r.out.WriteString(v.name)
		return at + 1
	}
	if list[field].text == "error" {
		v.wantsError = true
		r.out.WriteString(v.error)
		return field + 1
	}
	r.chain = true
	r.out.WriteString(v.name)
	return field + 1
}

func (r *rewriter) unknown(t token) {
	if r.full() {
		return
	}
	if in := r.scope.top().hidden[t.text]; in != "" {
		r.add(t.at, fmt.Sprintf("refer to steps.%s.result", in), "step %s is inside step %s and not visible here", t.text, in)
		return
	}
	r.add(t.at, nearestOrNone(t.text, r.scope.visible(), ""), "there is no step %.60q", t.text)
}

// pythonText returns a string literal of Python.
func pythonText(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		b.WriteString(escaped(c))
	}
	b.WriteByte('"')
	return b.String()
}

func escaped(c rune) string {
	switch {
	case c == '"' || c == '\\':
		return `\` + string(c)
	case c == '\n':
		return `\n`
	case c == '\t':
		return `\t`
	case c < ' ' || c == 0x7f:
		return fmt.Sprintf(`\x%02x`, c)
	case c >= 0x80 && c <= 0x9f || c == 0x2028 || c == 0x2029 || c == 0xfeff:
		return fmt.Sprintf(`\u%04x`, c)
	}
	return string(c)
}
