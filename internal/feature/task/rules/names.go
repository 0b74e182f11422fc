package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/wording"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

var (
	// preposition is one of a place or person, before its name.
	preposition = lazyregexp.New(`(?i)\b(?:for|in|at|of|near|from)\s+`)
	// separator is between the names of a list.
	separator = lazyregexp.New(`(?i)\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or|&)\s+`)
	// period is a number of days and the like, after the names.
	period = lazyregexp.New(`(?i)\s+(?:for|over|in)\s+(?:the\s+)?(?:next\s+)?\d+\s+\p{L}+[.?!\s]*$`)
	// plainName is a name whose letters need not show that it is one.
	plainName = lazyregexp.New(`^\p{L}[\p{L}'. -]*$`)
)

// timeWords end a request without being part of a name.
var timeWords = wording.Set("today tomorrow tonight now currently please right")

// takesName reports whether p takes one name.
func (p parameter) takesName() bool {
	return p.kind == "string" && p.enum == nil && p.required && shared(kindWords[wording.Proper], wording.Stems(p.name))
}

// namesAtEnd returns the names after the last preposition of a text, also those that their letters do not
// show to be names: abbreviations and words in lower case, as in "weather for NYC and LA" and "weather in
// paris". After them may be values of other parameters, named.
func namesAtEnd(all []parameter, text string) []string {
	if m := period().FindStringIndex(text); m != nil {
		text = text[:m[0]]
	}
	values := wording.Find(text)
	found := preposition().FindAllStringIndex(text, -1)
	found = slices.DeleteFunc(found, func(m []int) bool {
		return slices.ContainsFunc(values, func(v wording.Value) bool { return v.Start < m[0] && m[0] < v.End }) // Isle of Man
	})
	if len(found) == 0 {
		return nil
	}
	return listOfNames(all, text[found[len(found)-1][1]:])
}

// listOfNames returns the names in a list; nil if it has something else too.
func listOfNames(all []parameter, list string) []string {
	parts := separator().Split(strings.TrimRight(list, " ?.!,"), -1)
	for len(parts) > 1 && namesParameter(all, parts[len(parts)-1]) {
		parts = parts[:len(parts)-1]
	}
	for i, part := range parts {
		words := strings.Fields(part)
		for len(words) > 0 && timeWords[strings.ToLower(words[len(words)-1])] {
			words = words[:len(words)-1]
		}
		if parts[i] = strings.Join(words, " "); len(words) > 3 || !plainName().
			MatchString(parts[i]) || slices.ContainsFunc(words, isCommon) {
			return nil
		}
	}
	return parts
}

// namesParameter reports whether a text begins with the name of a parameter and has a value: "days 3".
func namesParameter(all []parameter, text string) bool {
	words := strings.Fields(strings.ToLower(text))
	return slices.ContainsFunc(all, func(p parameter) bool {
		name := wording.Words(p.name)
		return len(name) > 0 && len(words) > len(name) && slices.Equal(words[:len(name)], name)
	})
}

// isCommon reports whether a word is not part of a name.
func isCommon(w string) bool {
	stem := wording.Stem(w)
	return wording.IsFiller(w) || wording.IsVerb(stem) || kindWords[wording.Proper][stem]
}

// repeated is a call for each of several names.
type repeated struct {
	tool  int
	args  []argument // with the variable name in the place of the name
	names []string
}

// repeat returns a call for each of the names in a text, if the best tool for a clause takes one name.
func (w *writer) repeat(c wording.Clause, names func([]parameter) []string) (r repeated, ok bool) {
	best, ok := w.choose(c, c.Pool, false)
	if !ok {
		return r, false
	}
	all := w.params[best.tool]
	r.tool, r.names = best.tool, names(all)
	i := slices.IndexFunc(all, parameter.takesName)
	if i < 0 || len(r.names) < 2 {
		return r, false
	}
	taken := func(a argument) bool { // by a name that is not in the list
		return a.name == all[i].name && !slices.ContainsFunc(r.names, func(n string) bool { return a.code == literal(n) })
	}
	if slices.ContainsFunc(best.args, taken) {
		return r, false
	}
	pool := slices.DeleteFunc(slices.Clone(c.Pool), func(v int) bool { return slices.Contains(r.names, w.values[v].Text) })
	others := fill(slices.Concat(all[:i], all[i+1:]), c.Text, w.values, pool)
	r.args = append([]argument{{all[i].name, "name"}}, others.args...)
	return r, len(others.missing) == 0
}

// each writes a program that calls a tool for each of several names, and returns the results in order.
func (w *writer) each() (code string, ok bool) {
	if len(w.clauses) != 1 {
		return "", false
	}
	c := w.clauses[0]
	r, ok := w.repeat(c, func(all []parameter) []string { return namesAtEnd(all, c.Text) })
	if !ok {
		return "", false
	}
	call := w.program.callCode(w.tools[r.tool], r.args)
	return w.program.code(fmt.Sprintf("[%s for name in %s]", call, r.list())), true
}

func (r repeated) list() string {
	list := make([]string, len(r.names))
	for i, name := range r.names {
		list[i] = literal(name)
	}
	return "[" + strings.Join(list, ", ") + "]"
}
