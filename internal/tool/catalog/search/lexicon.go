package search

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed words/stop.txt
var stopText string

//go:embed words/weak.txt
var weakText string

//go:embed words/actions.txt
var actionsText string

//go:embed words/lexicon.txt
var lexiconText string

//go:embed words/near.txt
var nearText string

// lexicon is built-in knowledge of English. It is immutable.
type lexicon struct {
	stop    map[string]bool      // ignored words
	weak    map[string]bool      // stems with low weight
	generic map[string]bool      // words that do not distinguish tool names
	actions map[string]action    // stems
	related map[string][]related // stems
}

// related is a stem that also matches another.
type related struct {
	stem   string
	factor float32 // relative to the weight of the other
}

// action is a set of action categories, such as read or delete.
type action uint8

// Factors of related stems. Another spelling of a word has factor 1.
const (
	sameFactor  = .7 // synonym
	pointFactor = .5 // one-way relation
	nearFactor  = .3 // similar according to an embedding model
)

var loadLexicon = sync.OnceValue(func() *lexicon {
	l := &lexicon{stop: map[string]bool{}, weak: map[string]bool{}, generic: map[string]bool{},
		actions: map[string]action{}, related: map[string][]related{}}
	eachLine(stopText, func(line string) { addAll(l.stop, strings.Fields(line), false) })
	eachLine(weakText, func(line string) { addAll(l.weak, strings.Fields(line), true) })
	addAll(l.generic, strings.Fields("tool api mcp plugin the of a by for and in to v1 v2"), false)
	kind := action(1)
	eachLine(actionsText, func(line string) {
		_, words, _ := strings.Cut(line, ":")
		for _, w := range strings.Fields(words) {
			l.actions[stem(w)] |= kind
		}
		kind <<= 1
	})
	eachLine(lexiconText, l.addLine)
	eachLine(nearText, func(line string) {
		from, to, _ := strings.Cut(line, " > ")
		for to := range strings.FieldsSeq(to) {
			l.add(from, related{to, nearFactor})
		}
	})
	return l
})

func eachLine(text string, f func(line string)) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			f(line)
		}
	}
}

func addAll(set map[string]bool, words []string, stems bool) {
	for _, w := range words {
		if stems {
			w = stem(w)
		}
		set[w] = true
	}
}

// addLine parses one line of the lexicon: spellings of one word, a one-way relation,
// or a set of synonyms.
func (l *lexicon) addLine(line string) {
	from, to, points := strings.Cut(line, ">")
	factor := float32(pointFactor)
	switch {
	case points:
	case strings.Contains(line, "="):
		from = strings.ReplaceAll(line, "=", " ")
		to, factor = from, 1
	default:
		to, factor = from, sameFactor
	}
	for _, a := range strings.Fields(from) {
		for _, b := range strings.Fields(to) {
			l.add(stem(a), related{stem(b), factor})
		}
	}
}

func (l *lexicon) add(from string, to related) {
	if from == to.stem {
		return
	}
	for i, r := range l.related[from] {
		if r.stem == to.stem {
			l.related[from][i].factor = max(r.factor, to.factor)
			return
		}
	}
	l.related[from] = append(l.related[from], to)
}

// IsVerb reports whether a word, in lower case, names an action of a tool and not its object: get,
// list, create, or a stop word.
func IsVerb(word string) bool {
	l := loadLexicon()
	return l.actions[stem(word)] != 0 || l.stop[word] || l.generic[word]
}
