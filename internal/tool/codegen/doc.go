package codegen

import (
	"encoding/json"
	"strings"
)

// Limits of a docstring.
const (
	maxDescription = 1500 // characters of a tool's description
	maxParamText   = 300  // characters of a parameter's description
	maxKeyText     = 140  // characters of a key's description
	maxSection     = 9000 // characters of a section
	maxEnumValues  = 40   // listed values of an enum that its type omits
)

// note records the description of a key of a class.
func (n *namespace) note(class string, p *field) {
	if says := describeSchema(p.schema(), maxKeyText); says != "" && len(n.notes) < 200 {
		n.notes = append(n.notes, note{class + "[" + literal(p.name) + "]", says})
	}
}

// doc returns the function's docstring: description, parameters, keys of the
// classes, result and an example.
func (f *function) doc() string {
	var b strings.Builder
	title := oneLine(f.def.Title, 100)
	text := paragraphs(f.def.Description, maxDescription)
	if text == "" {
		text = title
	}
	if text == "" {
		text = "The tool " + literal(oneLine(f.def.Tool, 100)) + ". Its server provides no description."
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
	rest := maxSection
	for _, line := range lines {
		if rest -= len(line); rest < 0 {
			b.WriteString("\n    ...")
			return
		}
		b.WriteString("\n    " + line)
	}
}

// args returns a line for each parameter that has documentation.
func (f *function) args() (lines []string) {
	for _, p := range f.params {
		var says []string
		if p.id != p.wire {
			says = append(says, "Sent as "+literal(oneLine(p.wire, 100))+".")
		}
		if s := describeSchema(p.schema, maxParamText); s != "" {
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

// values documents the values of an enum that the type omits, and the default
// that the signature omits.
func (p param) values() string {
	var says []string
	if values, ok := p.schema.at("enum").([]any); ok && len(values) > maxLiterals {
		var some []string
		for _, v := range values[:maxEnumValues] {
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
		lines = append(lines, n.key+": "+n.text)
	}
	return lines
}

func (f *function) returns() string {
	if len(f.def.Output) == 0 {
		return "Any: the server does not declare a type."
	}
	if f.inferred {
		return f.result.brief() + " in the results so far: inferred, not declared."
	}
	return f.result.brief()
}

// describeSchema returns one line on a value: its description, and the limits and
// units that its type does not express.
func describeSchema(s *object, most int) string {
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

// limitKeywords maps the keywords that restrict a value to their description.
var limitKeywords = []struct{ key, before, after string }{
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
	for _, w := range limitKeywords {
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
