package detect

import (
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/lexicon"
)

// proseScore is the score of a name that is found by the words of which it consists. Such
// a name is not evidence that a value under "name" is one.
const proseScore = 0.65

const (
	maxRun      = 6   // words that are examined together
	minLower    = 4   // letters of a given name in lower case
	repeatedIn  = 512 // maximum distance in bytes of a part of a name from the whole
	maxRepeated = 4   // places where a part of a name is examined, before and after it
)

// addNames adds the names of persons that begin in text[lo:hi], by the words in and around them.
func addNames(in *passage, lo, hi int) {
	p := &prose{in, lexicon.Load()}
	p.typ = Name
	for i := lo; i < hi; i++ {
		if class[p.text[i]]&(letter|high) == 0 || i > 0 && class[p.text[i-1]]&(tokens|high) != 0 {
			continue
		}
		if class[p.text[i]]&lower != 0 {
			p.addLowerPair(i)
		} else if first, ok := p.capital(i); ok && !p.followsCapital(i) {
			p.addCapitals(first)
		}
	}
}

// addCapitals examines the capitalized words from first.
func (p *prose) addCapitals(first nameWord) {
	var all [maxRun]nameWord
	all[0] = first
	words := all[:1]
	for len(words) < maxRun {
		last := words[len(words)-1]
		next, ok := p.next(last)
		if !ok {
			break
		}
		words = append(words, next)
	}
	for a := 0; a < len(words); a++ {
		if n := p.fullNameAt(words, a); n > 0 {
			first, last := words[a], words[a+n-1]
			p.add(first.start, last.end, proseScore)
			p.addRepeated(first, last)
			a += n - 1
		} else if a == len(words)-1 && p.isSingleName(words, a) {
			p.add(words[a].start, words[a].end, proseScore)
		}
	}
}

// fullNameAt returns the number of the words of the longest name at words[a], or 0.
func (p *prose) fullNameAt(words []nameWord, a int) int {
	for b := min(len(words), a+4); b-a >= 2; b-- {
		n := fullName{p, words[a:b], words[b:]}
		if n.isName() {
			return b - a
		}
	}
	return 0
}

// addRepeated adds the first and last word of a name where they occur alone nearby.
func (p *prose) addRepeated(first, last nameWord) {
	for _, w := range []nameWord{first, last} {
		if w.initial || w.kind&lexicon.English != 0 || w.end-w.start < 3 {
			continue
		}
		p.addOccurrences(p.text[w.start:w.end], max(0, first.start-behind), first.start)
		p.addOccurrences(p.text[w.start:w.end], last.end, min(len(p.text), last.end+repeatedIn))
	}
}

// addOccurrences adds the first places in text[lo:hi] where a name occurs alone.
func (p *prose) addOccurrences(name string, lo, hi int) {
	for range maxRepeated {
		i := strings.Index(p.text[lo:hi], name)
		if i < 0 {
			return
		}
		i += lo
		lo = i + len(name)
		f := Finding{Type: Name, Start: p.base + i, End: p.base + lo, Score: proseScore}
		if p.is(i-1, tokens|high) || slices.Contains(p.found[max(0, len(p.found)-4*maxRepeated):], f) || p.followsCapital(i) {
			continue
		}
		if w, ok := p.capital(i); !ok || w.end != lo {
			continue
		} else if _, ok := p.next(w); !ok {
			p.found = append(p.found, f)
		}
	}
}

// addLowerPair adds a given name and a surname in lower case at i.
func (p *prose) addLowerPair(i int) {
	first, ok := p.lowerWord(i)
	if !ok || first.end-i < minLower || p.at(first.end) != ' ' || !first.isGiven() || first.kind&lexicon.CommonGiven == 0 ||
		places[p.text[i:first.end]] {
		return
	}
	last, ok := p.lowerWord(first.end + 1)
	if ok && last.kind&(lexicon.English|lexicon.Thing) == 0 && (last.kind&lexicon.Surname != 0 ||
		last.isUnknown() && last.end-last.start > minLower) {
		p.add(first.start, last.end, proseScore)
	}
}

// nameEvidence returns what identifies a name in prose.
func nameEvidence(p *passage, f Finding) (all []string) {
	kinds := lexicon.Load()
	words := strings.FieldsFunc(p.text[f.Start:f.End], func(r rune) bool { return r == ' ' || r == '\n' })
	if kinds.Kind(words[0])&lexicon.Given != 0 {
		all = append(all, "the first word is a given name")
	}
	if len(words) > 1 && kinds.Kind(words[len(words)-1])&lexicon.Surname != 0 {
		all = append(all, "the last word is a surname")
	}
	if isIntroduced(p, f.Start, f.End) {
		all = append(all, "the words before it, or the mail address after it")
	} else if len(all) == 0 || len(words) == 1 {
		all = append(all, "the words around it")
	}
	return all
}
