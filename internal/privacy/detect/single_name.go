package detect

import "github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/lexicon"

// isSingleName reports whether words[a], the last of a run, is a name alone by its context.
func (p *prose) isSingleName(words []nameWord, a int) bool {
	w := words[a]
	if w.initial || w.allCaps || w.kind&lexicon.Thing != 0 || a > 1 {
		return false
	}
	text := p.text[w.start:w.end]
	if a == 1 {
		switch before := p.text[words[0].start:words[0].end]; {
		case titles[before]:
			return !w.isWord()
		case words[0].kind&lexicon.English == 0 || before == "The":
			return false
		}
	}
	if follows(p.passage, w.start, introductions) && !w.isWord() && (w.kind != 0 || endsClause(p.passage, w.end)) {
		return true
	}
	if inGroup(p.passage, w) {
		return true
	}
	if w.isWord() || places[lexicon.Fold(text)] {
		return false
	}
	if p.inList(w) {
		return true
	}
	if !w.isGiven() {
		return false
	}
	next := wordAfter(p.passage, w.end)
	if next == "'s" || next == "’s" {
		return relations[wordAfter(p.passage, w.end+len(next))]
	}
	if speech[next] && (w.kind&lexicon.CommonGiven != 0 || beginsSentence(p.passage, w.start) || follows(p.passage, w.start, addressing)) {
		return true
	}
	return w.kind&lexicon.CommonGiven != 0 && follows(p.passage, w.start, addressing) || follows(p.passage, w.start, greetings)
}

// inGroup reports whether a word is in a list of persons, as in "our founders: A, B and C".
func inGroup(p *passage, w nameWord) bool {
	if w.isWord() {
		return false
	}
	at := w.start
	for range 10 {
		if follows(p, at, groups) {
			return true
		}
		if at = previous(p, at); at < 0 {
			return false
		}
	}
	return false
}

// inList reports whether a word is in a list of given names. Surnames only are more often the
// name of a company.
func (p *prose) inList(w nameWord) bool {
	names, plain := 0, w.isGiven() && w.kind&lexicon.CommonSurname == 0
	count := func(o nameWord) {
		if o.isGiven() && !places[lexicon.Fold(p.text[o.start:o.end])] {
			names++
			plain = plain || o.kind&lexicon.CommonSurname == 0
		}
	}
	at := w.end
	for range 3 {
		o, ok := p.listed(at)
		if !ok {
			break
		}
		count(o)
		at = o.end
	}
	at = w.start
	for range 2 {
		if at = previous(p.passage, at); at < 0 {
			break
		}
		o, ok := p.capital(at)
		if !ok {
			break
		}
		count(o)
	}
	return plain && (names > 0 && w.kind&lexicon.Given != 0 || names > 1 && w.isUnknown())
}
