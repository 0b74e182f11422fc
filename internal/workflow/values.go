package workflow

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Delimiters of an expression.
const (
	opening = "${{"
	closing = "}}"
)

// fields reads a mapping of names to values.
func (r *reader) fields(key Ref, n ast.Node) (all []Field) {
	list, _ := r.pairs(n, key.Name)
	for _, p := range list {
		all = append(all, Field{p.key.Name, p.key.Pos, r.value(p.value)})
	}
	return all
}

// value reads a value, which may contain expressions.
func (r *reader) value(n ast.Node) *Value {
	v := &Value{Pos: posOf(n)}
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		v.Map = append([]Field{}, r.fields(Ref{"a mapping", v.Pos}, n)...)
	case *ast.SequenceNode:
		v.List = []*Value{}
		for _, item := range n.Values {
			v.List = append(v.List, r.value(item))
		}
	case *ast.StringNode, *ast.LiteralNode:
		text := r.text(Ref{}, n)
		if strings.Contains(text, opening) {
			v.Template = r.template(text, n)
		} else {
			v.Plain = text
		}
	default:
		v.Plain = r.constant(n)
	}
	return v
}

// constant returns a value without expressions as JSON has it.
func (r *reader) constant(n ast.Node) any {
	switch n := n.(type) {
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode, *ast.FloatNode:
		var v any
		if err := yaml.NodeToValue(n, &v); err == nil {
			if raw, err := json.Marshal(v); err == nil {
				return json.Number(raw)
			}
		}
	case *ast.StringNode, *ast.LiteralNode:
		return r.text(Ref{}, n)
	case *ast.SequenceNode:
		list := []any{}
		for _, item := range n.Values {
			list = append(list, r.constant(item))
		}
		return list
	case *ast.MappingNode, *ast.MappingValueNode:
		list, _ := r.pairs(n, "a mapping")
		members := map[string]any{}
		for _, p := range list {
			members[p.key.Name] = r.constant(p.value)
		}
		return members
	}
	r.add(posOf(n), "", "the value is %s; write JSON values, and anything else as text", kindOf(n))
	return nil
}

// expression reads a value that is one expression; the delimiters can be omitted.
func (r *reader) expression(key Ref, n ast.Node) *Value {
	switch n := n.(type) {
	case *ast.BoolNode:
		return &Value{Pos: posOf(n), Plain: n.Value}
	case *ast.StringNode, *ast.LiteralNode:
		text := strings.TrimSpace(r.text(key, n))
		if !strings.Contains(text, opening) {
			text = opening + " " + text + " " + closing
			at := posOf(n)
			return &Value{Pos: at, Template: []Part{{Expr: strings.TrimSpace(text[3 : len(text)-2]), Pos: at}}}
		}
		v := r.value(n)
		if len(v.Template) == 1 {
			return v
		}
		r.add(v.Pos, "", "%s has text beside its expression; it must be one expression", key.Name)
		return v
	}
	r.add(posOf(n), "", "%s is %s; it must be an expression", key.Name, kindOf(n))
	return nil
}

// template divides text into texts and expressions.
func (r *reader) template(text string, n ast.Node) (parts []Part) {
	at := func(offset int) Pos { return offsetPos(n, text, offset) }
	for rest, done := text, 0; ; {
		i := strings.Index(rest, opening)
		if i < 0 {
			if rest != "" {
				parts = append(parts, Part{Text: rest})
			}
			return trimmed(parts)
		}
		if i > 0 {
			parts = append(parts, Part{Text: rest[:i]})
		}
		source := rest[i+len(opening):]
		end := expressionEnd(source)
		if end < 0 {
			r.add(at(done+i), "", "the expression has no closing %s", closing)
			return parts
		}
		expr := strings.TrimSpace(source[:end])
		lead := len(source[:end]) - len(strings.TrimLeft(source[:end], " \t\n"))
		start := done + i + len(opening) + lead
		if expr == "" {
			r.add(at(done+i), "", "the expression is empty")
			expr = "None"
		}
		parts = append(parts, Part{Expr: expr, Pos: at(start)})
		used := i + len(opening) + end + len(closing)
		rest, done = rest[used:], done+used
	}
}

// trimmed removes white space around a single expression, as a block of YAML has it.
func trimmed(parts []Part) []Part {
	var exprs []Part
	for _, p := range parts {
		if p.Expr != "" {
			exprs = append(exprs, p)
		} else if strings.TrimSpace(p.Text) != "" {
			return parts
		}
	}
	if len(exprs) == 1 {
		return exprs
	}
	return parts
}

// offsetPos returns the position of an offset in a text. It is that of the text, if the text
// has several lines that YAML joined.
func offsetPos(n ast.Node, text string, offset int) Pos {
	at := posOf(n)
	before := text[:offset]
	if block, ok := n.(*ast.LiteralNode); ok {
		if strings.HasPrefix(block.Start.Value, "|") {
			at.Line += 1 + strings.Count(before, "\n")
			at.Column = blockColumn(block) + len([]rune(before[strings.LastIndexByte(before, '\n')+1:]))
		}
		return at
	}
	if strings.Contains(text, "\n") {
		return at
	}
	quote := 0
	if t := n.GetToken(); strings.HasPrefix(strings.TrimLeft(t.Origin, " \t\n"), `"`) || strings.HasPrefix(strings.TrimLeft(t.Origin, " \t\n"), "'") {
		quote = 1
	}
	return Pos{at.Line, at.Column + quote + len([]rune(before))}
}

// blockColumn returns the column in which the lines of a block begin.
func blockColumn(block *ast.LiteralNode) int {
	for line := range strings.Lines(block.Value.GetToken().Origin) {
		if text := strings.TrimLeft(line, " "); strings.TrimSpace(text) != "" {
			return len(line) - len(text) + 1
		}
	}
	return 1
}

// tool returns the server and the tool of a target.
func (s *Step) tool() (server, tool string) {
	server, tool, _ = strings.Cut(s.Target.Name, ".")
	return server, tool
}

// String returns the position as LINE:COLUMN.
func (p Pos) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }
