package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
)

// Delimiters of an expression.
const (
	opening = "${{"
	closing = "}}"
)

// valueReader reads values, whose expressions have positions.
type valueReader struct {
	nodeReader
	source []byte
	lines  [][]byte // of source; nil until they are used
}

// fields reads a mapping of names to values.
func (r *valueReader) fields(key Ref, n *yaml.Node) (all []Field) {
	list, _ := r.pairs(n, key.Name)
	for _, p := range list {
		all = append(all, Field{p.key.Name, p.key.Pos, r.value(p.value)})
	}
	return all
}

// value reads a value, which may contain expressions.
func (r *valueReader) value(n *yaml.Node) *Value {
	v := &Value{Pos: posOf(n)}
	switch kindOf(n) {
	case "a mapping":
		v.Map = append([]Field{}, r.fields(Ref{"a mapping", v.Pos}, n)...)
	case "a list":
		v.List = []*Value{}
		for _, item := range n.Content {
			v.List = append(v.List, r.value(item))
		}
	case "text":
		if strings.Contains(n.Value, opening) {
			v.Template = r.template(n)
		} else {
			v.Plain = n.Value
		}
	case "empty", "a boolean", "a number":
		v.Plain = r.constant(n)
	default:
		r.constant(n) // reports it
		v.Template = []Part{{Expr: notKnown, Pos: v.Pos}}
	}
	return v
}

// notKnown is the expression for a value that is wrong. Its type is not checked.
const notKnown = "inputs"

// expression reads a value that is one expression; the delimiters can be omitted.
func (r *valueReader) expression(key Ref, n *yaml.Node) *Value {
	switch kindOf(n) {
	case "a boolean":
		at := posOf(n)
		return &Value{Pos: at, Template: []Part{{Expr: pythonConstant(isTrue(n)), Pos: at}}}
	case "text":
		text := strings.TrimSpace(n.Value)
		if !strings.Contains(text, opening) {
			at := posOf(n)
			return &Value{Pos: at, Template: []Part{{Expr: text, Pos: at}}}
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

// template divides a text into texts and expressions.
func (r *valueReader) template(n *yaml.Node) (parts []Part) {
	at := r.offsets(n)
	for rest, done := n.Value, 0; ; {
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
		begins := at(done + i)
		end := pysource.Closing(rest[i+1:]) + 1 - len(opening) - len(closing)
		if end < 0 || !strings.HasPrefix(source[end:], closing) {
			r.add(begins, "", "the expression has no closing %s", closing)
			return append(parts, Part{Expr: notKnown, Pos: begins})
		}
		expr := strings.TrimSpace(source[:end])
		lead := len(source[:end]) - len(strings.TrimLeft(source[:end], " \t\n"))
		if expr == "" {
			r.add(begins, "", "the expression is empty")
			expr = notKnown
		}
		parts = append(parts, Part{Expr: expr, Pos: at(done + i + len(opening) + lead)})
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

// offsets returns a function that returns the position of an offset of a text, and is called with
// growing offsets. It is the position of the text, if it has several lines that YAML joined.
func (r *valueReader) offsets(n *yaml.Node) func(offset int) Pos {
	text, start := n.Value, posOf(n)
	at, done := start, 0
	switch {
	case n.Style&yaml.LiteralStyle != 0:
		start = Pos{start.Line + 1, r.blockColumn(n)}
		at = start
	case n.Style&yaml.FoldedStyle != 0 || strings.Contains(text, "\n"):
		return func(int) Pos { return start }
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		at.Column++
	}
	return func(offset int) Pos {
		passed := text[done:offset]
		if lines := strings.Count(passed, "\n"); lines > 0 {
			at = Pos{at.Line + lines, start.Column}
			passed = passed[strings.LastIndexByte(passed, '\n')+1:]
		}
		at.Column += utf8.RuneCountInString(passed)
		done = offset
		return at
	}
}

// blockColumn returns the column in which the lines of a block begin.
func (r *valueReader) blockColumn(n *yaml.Node) int {
	if r.lines == nil {
		r.lines = bytes.Split(r.source, []byte("\n"))
	}
	for _, line := range r.lines[min(n.Line, len(r.lines)):] {
		if text := bytes.TrimLeft(line, " "); len(bytes.TrimSpace(text)) > 0 {
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

// seconds reads a duration or an expression of seconds.
func (r *valueReader) seconds(key Ref, n *yaml.Node) *Value {
	if v := r.value(n); v.Template != nil {
		if len(v.Template) > 1 {
			r.add(v.Pos, "", "%s has text beside its expression; it must be one expression of seconds", key.Name)
		}
		return v
	}
	return &Value{Pos: posOf(n), Plain: json.Number(fmt.Sprintf("%g", r.duration(key, n).Seconds()))}
}

// isoLayouts are the forms of a time that are checked before a run.
var isoLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05",
	"2006-01-02 15:04", time.DateOnly}

// instant reads a time in ISO 8601, or an expression of a time.
func (r *valueReader) instant(key Ref, n *yaml.Node) *Value {
	v := r.words(key, n)
	text, isText := v.Plain.(string)
	parses := func(layout string) bool { _, err := time.Parse(layout, text); return err == nil }
	if isText && text != "" && !slices.ContainsFunc(isoLayouts, parses) {
		r.add(v.Pos, "write a time such as 2026-12-31T09:00:00+01:00", "%s %.60q is not a time", key.Name, text)
	}
	return v
}

// words reads a text that is not empty, which may contain expressions.
func (r *valueReader) words(key Ref, n *yaml.Node) *Value {
	v := r.value(n)
	if text, isText := v.Plain.(string); v.Template == nil && (!isText || text == "") {
		r.add(v.Pos, "", "%s is %s; it must be text", key.Name, kindOf(n))
	}
	return v
}
