// Package pysource reads the functions that a Python module defines, with their signatures and
// docstrings, without running the module.
//
// It reads logical lines, not the grammar: source that Python rejects gives some functions or
// none, never an error. Only functions at the top level of the module are found, and none whose
// name begins with an underscore. All functions are pure.
package pysource

import (
	"strings"
	"unicode"
)

// Module is the documentation and the functions of a module.
type Module struct {
	Doc       string // its docstring, dedented; "" if there is none
	Functions []Function
}

// Function is a function at the top level of a module.
type Function struct {
	Name   string
	Async  bool
	Params string // the source between the parentheses, on one line
	Result string // the source of the annotation after ->; "" if there is none
	Doc    string // docstring, dedented; "" if there is none
}

// maxSignature is the maximum length of a signature in characters.
const maxSignature = 600

// Signature returns the function as "name(a: int, b=None) -> str".
func (f Function) Signature() string {
	text := f.Name + "(" + f.Params + ")"
	if f.Result != "" {
		text += " -> " + f.Result
	}
	if r := []rune(text); len(r) > maxSignature {
		text = string(r[:maxSignature-1]) + "…"
	}
	return text
}

// Parse reads a module. Of several functions with one name it returns the last, as Python does.
func Parse(source []byte) Module {
	var m Module
	at := map[string]int{}
	lines := logicalLines(strings.TrimPrefix(string(source), "\ufeff"))
	for i, l := range lines {
		if l.indent > 0 {
			continue
		}
		if i == 0 {
			m.Doc, _ = docstring(l.text)
		}
		f, body, ok := function(l.text)
		if !ok || strings.HasPrefix(f.Name, "_") {
			continue
		}
		if body == "" && i+1 < len(lines) && lines[i+1].indent > 0 {
			body = lines[i+1].text
		}
		f.Doc, _ = docstring(body)
		if j, known := at[f.Name]; known {
			m.Functions[j] = f
			continue
		}
		at[f.Name] = len(m.Functions)
		m.Functions = append(m.Functions, f)
	}
	return m
}

// Find returns the function of that name.
func (m Module) Find(name string) (Function, bool) {
	for _, f := range m.Functions {
		if f.Name == name {
			return f, true
		}
	}
	return Function{}, false
}

// function parses the line of a def statement. body is the rest after its colon.
func function(line string) (f Function, body string, ok bool) {
	if rest, is := word(line, "async"); is {
		f.Async, line = true, rest
	}
	rest, is := word(line, "def")
	if !is {
		return f, "", false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end <= 0 {
		return f, "", false
	}
	f.Name, rest = rest[:end], strings.TrimSpace(rest[end:])
	if strings.HasPrefix(rest, "[") { // type parameters
		rest = strings.TrimSpace(rest[Closing(rest):])
	}
	if !strings.HasPrefix(rest, "(") {
		return f, "", false
	}
	n := Closing(rest)
	f.Params = strings.TrimSuffix(strings.TrimSpace(strings.TrimSuffix(rest[1:n], ")")), ",")
	rest = rest[n:]
	n = colon(rest)
	f.Result = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest[:n]), "->"))
	return f, strings.TrimSpace(strings.TrimPrefix(rest[n:], ":")), true
}

// word removes a keyword from the beginning of a line.
func word(line, keyword string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(line, keyword+" ")
	return strings.TrimLeft(rest, " "), ok
}

// Closing returns the position after the bracket that closes the first one of text.
func Closing(text string) int {
	depth := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case isQuote(c):
			i = stringEnd(text, i)
			continue
		case isOpening(c):
			depth++
		case isClosing(c):
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(text)
}

// colon returns the position of the first colon outside of brackets and strings.
func colon(text string) int {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == ':':
			return i
		case isQuote(c):
			i = stringEnd(text, i)
		case isOpening(c):
			i += Closing(text[i:])
		default:
			i++
		}
	}
	return len(text)
}
