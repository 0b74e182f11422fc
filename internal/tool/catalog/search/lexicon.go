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

// lexicon is what is known of English beforehand. It never changes.
type lexicon struct {
	stop    map[string]bool      // words that are not looked for
	weak    map[string]bool      // stems that count little
	generic map[string]bool      // words that tell no two names apart
	actions map[string]action    // stems
	related map[string][]related // stems
}

// related is a stem that may stand for another.
type related struct {
	stem   string
	factor float32 // of the other's weight
}

// action is a set of kinds of doing.
type action uint8

// What a synonym counts, a word that only points the same way, and one that a
// model finds near; another writing of the word counts in full.
const (
	sameFactor  = .7
	pointFactor = .5
	nearFactor  = .3
)

var knownEnglish = sync.OnceValue(func() *lexicon {
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
	eachLine(lexiconText, l.relate)
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

// relate reads one line of the lexicon: writings of one word, words that point to
// others, or a set.
func (l *lexicon) relate(line string) {
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
