package codegen

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Bounds on a docstring.
const (
	longestText = 1500 // characters of a tool's description
	longestLine = 300  // of what is said of a parameter
	longestNote = 140  // of what is said of a key
	longestDoc  = 9000 // of all parameters and keys
	mostValues  = 40   // values of an enum that is too large for its type
)

// note remembers what a schema says of a key of a class.
func (n *namespace) note(class string, p *field) {
	if says := about(p.schema(), longestNote); says != "" && len(n.notes) < 200 {
		n.notes = append(n.notes, note{class + "[" + literal(p.name) + "]", says})
	}
}

// doc is the function's docstring: what the tool does, its parameters, what it
// returns, and a call.
func (f *function) doc() string {
	var b strings.Builder
	title := oneLine(f.def.Title, 100)
	text := paragraphs(f.def.Description, longestText)
	if text == "" {
		text = title
	}
	if text == "" {
		text = "The tool " + literal(oneLine(f.def.Tool, 100)) + ", which its server does not describe."
	}
	b.WriteString(text)
	section(&b, "Args", f.args())
	section(&b, "Keys", f.keys())
	section(&b, "Returns", []string{f.returns()})
	section(&b, "Example", []string{f.example()})
	return b.String()
}

func section(b *strings.Builder, name string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n\n" + name + ":")
	rest := longestDoc
	for _, line := range lines {
		if rest -= len(line); rest < 0 {
			b.WriteString("\n    ...")
			return
		}
		b.WriteString("\n    " + line)
	}
}

// args are a line for each parameter of which there is something to say.
func (f *function) args() (lines []string) {
	for _, p := range f.params {
		var says []string
		if p.id != p.wire {
			says = append(says, "Sent as "+literal(oneLine(p.wire, 100))+".")
		}
		if s := about(p.schema, longestLine); s != "" {
			says = append(says, s)
		}
		if s := p.values(); s != "" {
			says = append(says, s)
		}
		if len(says) > 0 {
			lines = append(lines, p.id+": "+strings.Join(says, " "))
		}
	}
	return lines
}

// values are those of an enum that the type leaves out, and a default that the
// signature does.
func (p param) values() string {
	var says []string
	if values, ok := p.schema.at("enum").([]any); ok && len(values) > mostLiterals {
		var some []string
		for _, v := range values[:mostValues] {
			if expr, ok := value(anything, v); ok {
				some = append(some, expr)
			}
		}
		says = append(says, "One of "+strings.Join(some, ", ")+" and others.")
	}
	if d := p.schema.at("default"); d != nil && p.value == "" {
		if expr, ok := value(anything, d); ok {
			says = append(says, "The server's default is "+expr+".")
		}
	}
	return strings.Join(says, " ")
}

func (f *function) keys() (lines []string) {
	for _, n := range f.names.notes {
		lines = append(lines, n.where+": "+n.says)
	}
	return lines
}

func (f *function) returns() string {
	if len(f.def.Output) == 0 {
		return "Any: the server does not say what."
	}
	if bytes.Equal(f.def.Output, Text) {
		return "str: it declares nothing, and has answered with text that is no JSON. All its answers are text; where one is JSON, use json.loads."
	}
	if f.inferred {
		return f.result.brief() + " in results seen so far: inferred, not declared."
	}
	return f.result.brief()
}

// about is what a schema says of one value, in a line: its description, and the
// limits and units that a type does not show.
func about(s *object, most int) string {
	if s == nil {
		return ""
	}
	var says []string
	text, _ := s.at("description").(string)
	if text == "" {
		text, _ = s.at("title").(string)
	}
	if text = oneLine(text, most); text != "" {
		if !strings.HasSuffix(text, ".") {
			text += "."
		}
		says = append(says, text)
	}
	if limits := limits(s); limits != "" {
		says = append(says, limits+".")
	}
	return strings.Join(says, " ")
}

// limitWords are the keywords that bound a value, and how to say them.
var limitWords = []struct{ key, before, after string }{
	{"format", "format ", ""}, {"contentEncoding", "encoded as ", ""},
	{"minimum", "at least ", ""}, {"exclusiveMinimum", "more than ", ""},
	{"maximum", "at most ", ""}, {"exclusiveMaximum", "less than ", ""},
	{"multipleOf", "a multiple of ", ""},
	{"minLength", "at least ", " characters"}, {"maxLength", "at most ", " characters"},
	{"minItems", "at least ", " items"}, {"maxItems", "at most ", " items"},
	{"pattern", "pattern ", ""},
}

func limits(s *object) string {
	var says []string
	for _, w := range limitWords {
		switch v := s.at(w.key).(type) {
		case string:
			if v = oneLine(v, 80); v != "" {
				says = append(says, w.before+v+w.after)
			}
		case json.Number:
			if len(v) <= 20 {
				says = append(says, w.before+v.String()+w.after)
			}
		}
	}
	if s.at("deprecated") == true {
		says = append(says, "deprecated")
	}
	text := strings.Join(says, ", ")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
