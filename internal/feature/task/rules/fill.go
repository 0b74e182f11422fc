package rules

import (
	"regexp"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/wording"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// argument is an argument of a call: a Python expression.
type argument struct {
	name string
	code string
}

// filled is the result of filling the arguments of a tool.
type filled struct {
	args    []argument
	missing []parameter // required ones without a value
	used    map[int]bool
	strong  int // arguments whose value was named, not only of a suitable type
}

// kindWords are the words of parameters that have values of a kind.
var kindWords = map[wording.Kind]map[string]bool{
	wording.Quoted: stemsOf("content text message comment title query sql body note topic subject data pattern description old " +
		"new search"),
	wording.WebAddress: stemsOf("url uri link address page"),
	wording.Email:      stemsOf("email mail recipient to"),
	wording.Date:       stemsOf("date day from to start end since until due when begin first last"),
	wording.Clock:      stemsOf("time hour clock when"),
	wording.Phone:      stemsOf("phone telephone mobile"),
	wording.File:       stemsOf("path file filename source destination target directory folder"),
	wording.Expression: stemsOf("expression formula calculation"),
	wording.Proper: stemsOf("city location place name person contact customer country assignee attendee town user owner author " +
		"entity node"),
	wording.Number: {},
}

func stemsOf(list string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(list) {
		all[wording.Stem(w)] = true
	}
	return all
}

// numeric reports whether p takes numbers.
func (p parameter) numeric() bool { return p.kind == "number" || p.kind == "integer" }

// suits reports whether a value may be the argument.
func (p parameter) suits(v wording.Value) bool {
	switch {
	case p.enum != nil:
		return slices.ContainsFunc(p.enum, func(e string) bool { return strings.EqualFold(e, v.Text) })
	case p.kind == "integer":
		return v.IsInteger()
	case p.kind == "number":
		return v.Kind == wording.Number
	case p.kind == "boolean" || p.kind == "object":
		return false
	case p.kind == "array":
		return p.items == "string" && (v.Kind == wording.Proper || v.Kind == wording.Quoted || v.Kind == wording.File) || p.items == ""
	}
	return true
}

// affinity returns how well a value fits a parameter; 0 if it does not.
func (p parameter) affinity(v wording.Value) float64 {
	if !p.suits(v) {
		return 0
	}
	name, about := wording.Stems(p.name), wording.Stems(p.about)
	score := .3
	if v.Kind == wording.Number && !p.numeric() {
		score = .1
	}
	if shared(kindWords[v.Kind], name) {
		score += 2.5
	}
	if shared(kindWords[v.Kind], about) {
		score += .7
	}
	for i, w := range v.Before {
		switch {
		case name[wording.Stem(w)]:
			score += 4 - float64(i)
		case about[wording.Stem(w)] && i == 0 && !wording.IsVerb(wording.Stem(w)):
			score += .8
		}
	}
	switch w := wording.Stem(v.After); {
	case w == "":
	case name[w]:
		score += 3
	case about[w]:
		score += 2.2
	}
	// a file is no city
	if particular[v.Kind] && p.kind == "string" && !shared(kindWords[v.Kind], name) && !shared(kindWords[v.Kind], about) {
		return 0
	}
	return score
}

// particular are the kinds of values that only parameters named for them take.
var particular = map[wording.Kind]bool{wording.File: true, wording.Expression: true, wording.Clock: true}

func shared(a, b map[string]bool) bool {
	for w := range a {
		if b[w] {
			return true
		}
	}
	return false
}

// named is the least affinity of the value of an optional parameter.
const named = 2.5

// fill fills the arguments of a tool with the values of a text that are not used. pool are their
// indexes.
func fill(all []parameter, text string, values []wording.Value, pool []int) filled {
	f := filled{used: map[int]bool{}}
	taken := map[string]argument{}
	f.fillEnums(all, text, taken)
	f.fillLists(all, text, values, pool, taken)
	f.fillValues(all, values, pool, taken)
	for _, p := range all {
		if _, ok := taken[p.name]; ok {
			continue
		}
		if code, ok := wordAfter(p, text); ok {
			taken[p.name] = argument{p.name, code}
			f.strong++
			continue
		}
		if p.takesName() {
			if names := namesAtEnd(all, text); len(names) == 1 {
				taken[p.name] = argument{p.name, literal(names[0])}
				f.strong++
				continue
			}
		}
		if len(p.members) > 0 && p.required {
			f.fillMembers(p, text, values, pool, taken)
		}
	}
	for _, p := range all {
		if a, ok := taken[p.name]; ok {
			f.args = append(f.args, a)
		} else if p.required {
			f.missing = append(f.missing, p)
		}
	}
	return f
}

// vague are values of enumerations that are also ordinary words of a task.
var vague = wording.Set("all any none text name size other default debug")

func (f *filled) fillEnums(all []parameter, text string, taken map[string]argument) {
	in := wording.Words(text)
	for _, p := range all {
		for _, e := range p.enum {
			if vague[strings.ToLower(e)] && !p.required || !containsWords(in, wording.Words(e)) {
				continue
			}
			taken[p.name] = argument{p.name, literal(e)}
			f.strong++
			break
		}
		if p.kind == "boolean" && containsWords(in, wording.Words(p.name)) && !p.required {
			taken[p.name] = argument{p.name, "True"}
		}
	}
}

// containsWords reports whether words have others in a row.
func containsWords(in, some []string) bool {
	for i := 0; len(some) > 0 && i+len(some) <= len(in); i++ {
		if slices.Equal(in[i:i+len(some)], some) {
			return true
		}
	}
	return false
}

// fillLists fills arrays of texts with values that follow each other: "with the attendees Ada,
// Ben and Cleo".
func (f *filled) fillLists(all []parameter, text string, values []wording.Value, pool []int, taken map[string]argument) {
	for _, p := range all {
		if p.kind != "array" || len(p.members) > 0 {
			continue
		}
		var list []string
		last := -1
		for _, i := range pool {
			v := values[i]
			if f.used[i] || !p.suits(v) {
				continue
			}
			near := slices.ContainsFunc(v.Before, func(w string) bool { return shares(wording.Stems(p.name), wording.Stem(w)) })
			next := last >= 0 && listed().MatchString(text[values[last].End:v.Start])
			if near || next || p.required && last < 0 {
				list, last = append(list, literal(v.Text)), i
				f.used[i] = true
			}
		}
		if list != nil {
			taken[p.name] = argument{p.name, "[" + strings.Join(list, ", ") + "]"}
			f.strong++
		}
	}
}

// listed matches what is between two values of a list.
var listed = lazyregexp.New(`^(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s+or\s+)$`)

// shares reports whether a stem is one of a set, or the beginning of one.
func shares(all map[string]bool, w string) bool {
	for s := range all {
		if s == w || len(w) >= 4 && strings.HasPrefix(s, w) || len(s) >= 4 && strings.HasPrefix(w, s) {
			return true
		}
	}
	return false
}

// fillValues assigns values to parameters, the best pair first.
func (f *filled) fillValues(all []parameter, values []wording.Value, pool []int, taken map[string]argument) {
	type pair struct {
		p, v  int
		score float64
	}
	var pairs []pair
	for n, p := range all {
		for m, i := range pool {
			if s := p.affinity(values[i]); s > 0 && !f.used[i] && p.kind != "array" {
				order := float64(n-m) * .05 // the order of parameters is often that of the text
				pairs = append(pairs, pair{n, i, s - max(order, -order)})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	for _, c := range pairs {
		p, v := all[c.p], values[c.v]
		if _, ok := taken[p.name]; ok || f.used[c.v] || !p.required && c.score < named {
			continue
		}
		if p.required && c.score < named && v.Kind == wording.Number && !p.numeric() { // a count is no text
			continue
		}
		f.used[c.v] = true
		if c.score >= named {
			f.strong++
		}
		taken[p.name] = argument{p.name, p.literal(v)}
	}
}

// fillMembers fills an object, or an array with one, by the values that are left.
func (f *filled) fillMembers(p parameter, text string, values []wording.Value, pool []int, taken map[string]argument) {
	left := slices.DeleteFunc(slices.Clone(pool), func(i int) bool { return f.used[i] })
	inner := fill(p.members, text, values, left)
	if len(inner.missing) > 0 || len(inner.args) == 0 {
		return
	}
	for i := range inner.used {
		f.used[i] = true
	}
	f.strong += inner.strong
	var parts []string
	for _, a := range inner.args {
		parts = append(parts, literal(a.name)+": "+a.code)
	}
	code := "{" + strings.Join(parts, ", ") + "}"
	if p.kind == "array" {
		code = "[" + code + "]"
	}
	taken[p.name] = argument{p.name, code}
}

// wordAfter returns a plain word that follows the name of a text parameter: "the sheet customers".
func wordAfter(p parameter, text string) (code string, ok bool) {
	if p.kind != "string" || p.enum != nil || !p.required {
		return "", false
	}
	named := wording.Words(p.name)
	if len(named) == 0 {
		return "", false
	}
	form := regexp.MustCompile(`(?i)\b` + strings.Join(named, `[ _-]`) + `(?: named| called| is|:)? ([\p{L}\d_-]+)`)
	m := form.FindStringSubmatch(text)
	if m == nil || wording.IsFiller(m[1]) || wording.IsVerb(wording.Stem(m[1])) {
		return "", false
	}
	return literal(m[1]), true
}

func (p parameter) literal(v wording.Value) string {
	switch {
	case p.numeric() && v.Kind == wording.Number:
		return decimal(v.Text)
	case p.enum != nil:
		for _, e := range p.enum {
			if strings.EqualFold(e, v.Text) {
				return literal(e)
			}
		}
	}
	return literal(v.Text)
}

// decimal returns a number without leading zeros, which Python rejects.
func decimal(text string) string {
	digits, negative := strings.CutPrefix(text, "-")
	for len(digits) > 1 && digits[0] == '0' && digits[1] != '.' {
		digits = digits[1:]
	}
	if negative {
		return "-" + digits
	}
	return digits
}
