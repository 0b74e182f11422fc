package wording

import (
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// Clause is a part of a task that asks for one thing.
type Clause struct {
	Text       string
	Start, End int
	Pool       []int // indexes of its values
}

// borders are the words that may separate two clauses. The second group begins the next one.
var borders = lazyregexp.New(`(?i)([.;?!]\s+|,?\s+and then\s+|,?\s+then\s+|,\s+and\s+|,\s+|\s+and\s+|:\s+)(\p{L}+)`)

// Split splits a task into clauses. A clause without a verb belongs to the one before it, or at
// the beginning to the one after it.
func Split(text string, values []Value) []Clause {
	cuts := []int{0}
	for at := 0; at < len(text); {
		m := borders().FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		first, next := at+m[2], at+m[4]
		within := slices.ContainsFunc(values, func(v Value) bool { return v.Start <= first && first < v.End })
		w := strings.ToLower(text[next : at+m[5]])
		ends := strings.ContainsAny(text[first:at+m[3]], ".;?!")
		if !within && (verbs[Stem(w)] || ends) && !nounUse(text[at+m[5]:]) {
			cuts = append(cuts, next)
		}
		at = next
	}
	var all []Clause
	for i, start := range cuts {
		end := len(text)
		if i+1 < len(cuts) {
			end = cuts[i+1]
		}
		all = append(all, Clause{Start: start, End: end})
	}
	all = merge(text, all)
	for i := range all {
		c := &all[i]
		c.Text = text[c.Start:c.End]
		for n, v := range values {
			if v.Start >= c.Start && v.Start < c.End {
				c.Pool = append(c.Pool, n)
			}
		}
	}
	return all
}

// nounUse reports whether a word that may be a verb is none: "a call, query and search".
func nounUse(rest string) bool {
	return strings.HasPrefix(rest, " of ") || strings.HasPrefix(rest, " is ")
}

var questions = Set("what which who whose where how")

// merge joins clauses without a verb with their neighbours.
func merge(text string, all []Clause) (merged []Clause) {
	pending := -1
	for _, c := range all {
		has := false
		for _, w := range Words(text[c.Start:c.End]) {
			has = has || verbs[Stem(w)] || questions[w]
		}
		switch {
		case has && pending >= 0:
			merged = append(merged, Clause{Start: pending, End: c.End})
			pending = -1
		case has:
			merged = append(merged, c)
		case len(merged) > 0:
			merged[len(merged)-1].End = c.End
		case pending < 0:
			pending = c.Start
		}
	}
	if len(merged) == 0 {
		return []Clause{{Start: 0, End: len(text)}}
	}
	return merged
}

// gists are the words of descriptions of tools for a value of a kind.
var gists = map[Kind]string{
	Quoted: "", WebAddress: "URL", Email: "e-mail address", Date: "date", Clock: "time", Phone: "phone number", File: "file",
	Expression: "arithmetic expression",
}

// Gist returns a text for the search of tools: with the kinds of its values instead of the values,
// since the words of a file's name or of a quoted text do not describe the tool.
func Gist(text string, values []Value) string {
	var b strings.Builder
	at := 0
	for _, v := range values {
		gist, ok := gists[v.Kind]
		switch {
		case v.Kind == Number:
			gist = ""
		case !ok: // a name may be that of a server
			continue
		case len(v.Before) > 0 && strings.Contains(gist, v.Before[0]):
			gist = ""
		}
		b.WriteString(text[at:v.Start] + gist)
		at = v.End
	}
	gist := b.String() + text[at:]
	if reads(gist, values) {
		gist += " read"
	}
	return gist
}

// reads reports whether a text names a file without a verb for it.
func reads(gist string, values []Value) bool {
	return slices.ContainsFunc(values, func(v Value) bool { return v.Kind == File }) &&
		!slices.ContainsFunc(Words(gist), func(w string) bool { return fileVerbs[w] })
}

var fileVerbs = Set("write save store create delete remove move rename copy edit replace append put list send search")

// Queries returns what to search tools with for a task: the whole, and each clause if there are
// several.
func Queries(text string) []string {
	values := Find(text)
	queries := []string{Gist(text, values)}
	if clauses := Split(text, values); len(clauses) > 1 {
		for _, c := range clauses {
			queries = append(queries, Gist(c.Text, Find(c.Text)))
		}
	}
	return queries
}

// Join returns c and the clause after it as one.
func (c Clause) Join(text string, next Clause) Clause {
	return Clause{Text: text[c.Start:next.End], Start: c.Start, End: next.End, Pool: slices.Concat(c.Pool, next.Pool)}
}
