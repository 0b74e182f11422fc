// Package wording reads the description of a task: its values, its clauses, and the query
// for a search of tools. It knows English only.
package wording

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// Kind is the form of a value in a text.
type Kind int

const (
	Quoted Kind = iota
	WebAddress
	Email
	Date
	Clock
	Phone
	File
	Expression
	Number
	Proper // a name: capitalized words
)

// Value is a value in the text of a task.
type Value struct {
	Kind       Kind
	Text       string   // without quotes; dates as 2006-01-02
	Start, End int      // its place, with quotes
	Before     []string // up to three words before it, the nearest first, without fillers and numbers
	After      string   // the next word
}

const months = `(?i:january|february|march|april|may|june|july|august|september|october|november|december)`

// forms are the forms of values. A value of an earlier form is not part of a later one. The
// first group is the value.
var forms = []struct {
	kind Kind
	form func() *regexp.Regexp
}{
	{Quoted, lazyregexp.New(`"([^"]*)"|“([^”]*)”|(?:^|[\s(\[,:])'([^']*)'`)},
	{WebAddress, lazyregexp.New(`\bhttps?://[^\s,;]+`)},
	{Email, lazyregexp.New(`[\p{L}\d._%+-]+@[\p{L}\d-]+(?:\.[\p{L}\d-]+)+`)},
	{Date, lazyregexp.New(`\b\d{4}-\d{2}-\d{2}\b|\b` + months + ` \d{1,2}(?:st|nd|rd|th)?,? \d{4}\b|\b\d{1,2}(?:st|nd|rd|th|\.)? (?:of )?` +
		months + `,? \d{4}\b`)},
	{Clock, lazyregexp.New(`\b\d{1,2}:\d{2}\b`)},
	{Phone, lazyregexp.New(`\+\d[\d ()-]{6,}\d`)},
	{File, lazyregexp.New(`[\p{L}\d_~.-]*(?:/[\p{L}\d_.-]+)+|[\p{L}\d_-]+(?:\.[\p{L}\d_-]+)*\.[a-zA-Z][a-zA-Z0-9]{0,4}\b`)},
	{Expression, lazyregexp.New(`[(-]*\d[\d.]*\)*(?:\s*(?:\*\*|[-+*/%^])\s*[(-]*\d[\d.]*\)*)+`)},
	{Number, lazyregexp.New(`-?\b\d+(?:\.\d+)?\b`)},
	{Proper, lazyregexp.New(`\p{Lu}[\p{L}'-]*(?: (?:(?:de|da|do|van|von|of|the|la|le) )?\p{Lu}[\p{L}'-]*)*`)},
}

// Find returns the values in a text, in its order.
func Find(text string) (all []Value) {
	taken := make([]bool, len(text)+1)
	for _, f := range forms {
		for _, m := range f.form().FindAllStringSubmatchIndex(text, -1) {
			start, end := m[0], m[1]
			content := text[start:end]
			for g := 2; g+1 < len(m); g += 2 { // the group that took part
				if m[g] >= 0 {
					content = text[m[g]:m[g+1]]
					_, before := utf8.DecodeLastRuneInString(text[:m[g]])
					_, after := utf8.DecodeRuneInString(text[m[g+1]:])
					start, end = m[g]-before, m[g+1]+after
				}
			}
			if slices.Contains(taken[start:end], true) || f.kind == Proper && !isProper(text, start, content) {
				continue
			}
			v := Value{Kind: f.kind, Text: content, Start: start, End: end}
			if f.kind == Date {
				v.Text = isoDate(content)
			}
			for i := start; i < end; i++ {
				taken[i] = true
			}
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b Value) int { return a.Start - b.Start })
	for i := range all {
		all[i].Before = wordsBefore(text[:all[i].Start])
		all[i].After = firstWord(text[all[i].End:])
	}
	return all
}

// isProper reports whether capitalized words are a name: a single one at the beginning of a
// sentence is not.
func isProper(text string, start int, Words string) bool {
	before := strings.TrimRight(text[:start], " ")
	if before != "" && !strings.ContainsAny(before[len(before)-1:], ".:?!") {
		return strings.ToUpper(Words) != Words // an abbreviation
	}
	first, _, more := strings.Cut(Words, " ")
	return !verbs[Stem(first)] && !fillers[strings.ToLower(first)] && (more || before == "" && len(strings.Fields(text)) <= 3)
}

var ordinal = lazyregexp.New(`(\d)(?:st|nd|rd|th|\.)`)

func isoDate(text string) string {
	plain := strings.ReplaceAll(strings.ReplaceAll(ordinal().ReplaceAllString(text, "$1"), ",", ""), " of ", " ")
	for _, layout := range []string{time.DateOnly, "January 2 2006", "2 January 2006"} {
		if t, err := time.Parse(layout, capitalize(plain)); err == nil {
			return t.Format(time.DateOnly)
		}
	}
	return text
}

func capitalize(text string) string {
	all := strings.Fields(strings.ToLower(text))
	for i, w := range all {
		all[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(all, " ")
}

// IsInteger reports whether v is a number without a fraction.
func (v Value) IsInteger() bool {
	_, err := strconv.ParseInt(v.Text, 10, 64)
	return err == nil && v.Kind == Number
}
