package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/wording"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// fromResult returns an expression of the last result for an argument.
func (w *writer) fromResult(p parameter, c wording.Clause) (code string, ok bool) {
	if w.last == "" || p.enum != nil {
		return "", false
	}
	switch {
	case p.numeric():
		return w.program.use("number") + "(" + w.last + ")", true
	case p.kind != "string" && p.kind != "":
		return "", false
	}
	source := w.last
	if of := phrase(p, c.Text); of != nil {
		source = w.pick(of, "or "+w.last)
	} else if !whole[p.name] {
		source = w.pick(wording.Words(p.name), "or "+w.last)
	}
	code = w.program.use("text") + "(" + source + ")"
	if !kindWords[wording.Quoted][wording.Stem(p.name)] {
		code += ".strip()" // a value, not a text: the line break of a file is not part of it
	}
	return code, true
}

// whole are the names of parameters that take all of a result.
var whole = wording.Set("content text body message data")

// pick returns the member of the last result that words name.
func (w *writer) pick(of []string, otherwise string) string {
	all := make([]string, len(of))
	for i, word := range of {
		all[i] = literal(strings.TrimSuffix(word, "s"))
	}
	return strings.TrimSpace(fmt.Sprintf("%s(%s, %s) %s", w.program.use("pick"), w.last, strings.Join(all, ", "), otherwise))
}

// references begin a reference of a clause to the previous result: "its title", "the phone number".
var references = lazyregexp.New(`(?i)\b(?:its|the|this|their|his|her)\s+`)

// noun is the word after a reference.
var noun = lazyregexp.New(`^(?:[\p{L}-]+\s*){1,3}`)

// results are words for a whole result.
var results = stemsOf("result answer total sum value output file content text it this data forecast weather contact event ticket " +
	"calendar database")

// phrase returns the words with which a clause names the part of the result for an argument; nil
// for the whole.
func phrase(p parameter, text string) []string {
	name := wording.Stems(p.name)
	var other []string
	for _, m := range references().FindAllStringIndex(text, -1) {
		var of []string
		for _, w := range wording.Words(noun().FindString(text[m[1]:])) {
			if wording.IsFiller(w) || wording.IsVerb(wording.Stem(w)) {
				break
			}
			of = append(of, w)
		}
		if len(of) == 0 {
			continue
		}
		if slices.ContainsFunc(of, func(w string) bool { return name[wording.Stem(w)] }) {
			return of
		}
		if other == nil && !slices.ContainsFunc(of, func(w string) bool { return results[wording.Stem(w)] }) {
			other = of
		}
	}
	// a text may be anything
	if kindWords[wording.Quoted][wording.Stem(p.name)] && !name[wording.Stem("title")] && !name[wording.Stem("query")] {
		return other
	}
	return nil
}

// people are words for a row or record as a whole.
var people = lazyregexp.New(`(?i)\b(?:this|the|that)\s+(?:first\s+|last\s+)?(?:person|contact|row|record|entry|customer)\b`)

// optionalFromResult returns optional arguments that the last result has, if the clause refers to
// a record as a whole.
func (w *writer) optionalFromResult(best choice, c wording.Clause) (all []argument) {
	if w.last == "" {
		return nil
	}
	given := func(name string) bool {
		return slices.ContainsFunc(best.args, func(a argument) bool { return a.name == name })
	}
	var names []string
	for _, p := range w.params[best.tool] {
		if p.required || given(p.name) || p.kind != "string" {
			continue
		}
		if of := phrase(p, c.Text); of != nil && !kindWords[wording.Quoted][wording.Stem(p.name)] {
			all = append(all, argument{p.name, w.pick(of, "")})
		} else if people().MatchString(c.Text) {
			names = append(names, literal(p.name))
		}
	}
	if names != nil {
		all = append(all, argument{"", fmt.Sprintf("{n: v for n in [%s] if (v := %s(%s, n)) is not None}", strings.Join(names, ", "),
			w.program.use("pick"), w.last)})
	}
	return all
}

// columns match "sum the amount column" and the like.
var columns = lazyregexp.New(`(?i)\b(sum|add ` +
	`up|total|average|mean|count|maximum|minimum|largest|smallest)\b.*?\b(?:the\s+)?(?:column\s+([\p{L}\d_-]+)|([\p{L}\d_-]+)\s+column)`)

// functions of columns.
var functions = map[string]string{
	"sum": "sum(%s)", "add up": "sum(%s)", "total": "sum(%s)", "average": "statistics.mean(%s)", "mean": "statistics.mean(%s)",
	"count": "len(%s)", "maximum": "max(%s)", "minimum": "min(%s)", "largest": "max(%s)", "smallest": "min(%s)",
}

// compute adds a computation over the last result; false if the clause asks for none.
func (w *writer) compute(c wording.Clause) bool {
	m := columns().FindStringSubmatch(c.Text)
	if m == nil {
		return false
	}
	column := m[2] + m[3]
	w.program.use("column")
	w.program.results++
	name := fmt.Sprintf("r%d", w.program.results)
	w.program.lines = append(w.program.lines, name+" = "+fmt.Sprintf(functions[strings.ToLower(m[1])],
		fmt.Sprintf("column(%s, %s)", w.last, literal(column))))
	w.last = name
	return true
}

var (
	comparison = lazyregexp.New(`(?i)\b(?:which|what|where|who|is)\b.*\b(warmer|hotter|colder|cooler|cheaper|dearer|larger|bigger|smaller|higher|lower|longer|shorter|older|younger|more \p{L}+|less \p{L}+)\b`)
	least      = wording.Set("colder cooler cheaper smaller lower shorter younger")
	measures   = map[string]string{"warmer": "temperature", "hotter": "temperature", "colder": "temperature", "cooler": "temperature",
		"cheaper": "price", "dearer": "price",
		"larger": "size", "bigger": "size", "smaller": "size", "longer": "length", "shorter": "length", "older": "age", "younger": "age"}
)

// compare writes a program that calls one tool for each of several names, and returns the one with
// the largest or smallest measure.
func (w *writer) compare() (code string, ok bool) {
	m := comparison().FindStringSubmatchIndex(w.text)
	if m == nil {
		return "", false
	}
	r, ok := w.compared(m[0], m[1])
	if !ok {
		return "", false
	}
	how := strings.ToLower(w.text[m[2]:m[3]])
	measure, function := measures[how], "max"
	if first, adjective, more := strings.Cut(how, " "); more {
		measure = adjective
		if first == "less" {
			function = "min"
		}
	}
	if least[how] {
		function = "min"
	}
	w.program.use("pick")
	w.program.use("number")
	call := w.program.callCode(w.tools[r.tool], r.args)
	key := fmt.Sprintf("number(pick(found[name], %s) or found[name])", literal(measureStem(measure)))
	w.program.lines = append(w.program.lines, "found = {name: "+call+" for name in "+r.list()+"}")
	return w.program.code(fmt.Sprintf("%s(found, key=lambda name: %s)", function, key)), true
}

// compared returns the call for each of the names that a text compares from start to end.
func (w *writer) compared(start, end int) (r repeated, ok bool) {
	var names []int
	for i, v := range w.values {
		if v.Kind == wording.Proper || v.Kind == wording.Quoted {
			names = append(names, i)
		}
	}
	best, ok := w.choose(wording.Clause{Text: w.text}, names, false)
	if !ok || len(names) < 2 || len(best.missing) > 0 || len(best.used) != 1 {
		return w.repeat(wording.Clause{Text: w.text}, func(all []parameter) []string {
			for _, text := range []string{w.text[:start], w.text[end:]} {
				if found := namesAtEnd(all, strings.TrimRight(text, " ,;:?.!")); len(found) > 1 {
					return found
				}
			}
			if i := strings.IndexAny(w.text[end:], ",:"); i >= 0 { // which is warmer, paris or london
				return listOfNames(all, strings.TrimLeft(w.text[end+i+1:], " "))
			}
			return nil
		})
	}
	r = repeated{tool: best.tool, args: slices.Clone(best.args)}
	for _, i := range names {
		r.names = append(r.names, w.values[i].Text)
	}
	for i, a := range r.args {
		if slices.ContainsFunc(r.names, func(n string) bool { return a.code == literal(n) }) {
			r.args[i].code = "name"
		}
	}
	return r, true
}

// measureStem shortens an adjective to the part that names of members have in common with it: humid,
// humidity.
func measureStem(w string) string { return w[:min(len(w), 6)] }
