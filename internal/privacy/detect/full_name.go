package detect

import (
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/lexicon"
)

// fullName is a candidate for a given name and a surname, or other words that are a name by
// their context. Its methods are the properties that decide; full_name_test.go has their examples.
type fullName struct {
	p     *prose
	words []nameWord // that follow each other
	rest  []nameWord // capitalized words that follow directly
}

func (n *fullName) first() nameWord { return n.words[0] }
func (n *fullName) last() nameWord  { return n.words[len(n.words)-1] }
func (n *fullName) start() int      { return n.first().start }
func (n *fullName) end() int        { return n.last().end }

// isName decides: nothing may contradict, and by its first word, a candidate needs other evidence.
func (n *fullName) isName() bool {
	if n.endsWithInitial() || n.hasOtherWord() || n.precedesThing() || isStreet(n.p.passage, n.start(), n.end()) || n.isThing() ||
		n.endsWithAcronym() {
		return false
	}
	switch first := n.first(); {
	case n.isAllCaps():
		return first.isGiven() && first.kind&lexicon.CommonGiven != 0 && n.endsWithName()
	case first.initial:
		return n.isInitialAndSurname()
	case first.isGiven():
		return n.isGivenAndSurname()
	case first.kind&lexicon.Given != 0:
		return n.isWordAndSurname()
	}
	return n.hasMiddleInitial() || n.isSpeaker() || n.isIntroduced()
}

// endsWithInitial: "Ada L." is not the whole name.
func (n *fullName) endsWithInitial() bool { return n.last().initial }

// hasOtherWord: "Grace Period" has a word of English, "Jackson Street" one of the name of a thing. The
// surname of "by Zaphod March <z@example.org>" is the latter too.
func (n *fullName) hasOtherWord() bool {
	for i, w := range n.words {
		if w.isWord() || w.kind&lexicon.Thing != 0 && (i+1 < len(n.words) || w.kind&lexicon.Surname == 0 || !n.isIntroduced()) {
			return true
		}
	}
	return false
}

// precedesThing: "Oliver Wyman Office".
func (n *fullName) precedesThing() bool {
	return slices.ContainsFunc(n.rest, func(w nameWord) bool { return w.kind&lexicon.Thing != 0 })
}

// isThing: "the Floyd Warshall algorithm".
func (n *fullName) isThing() bool {
	return afterArticle(n.p.passage, n.start()) && n.p.words[wordAfter(n.p.passage, n.end())]&lexicon.Thing != 0
}

// endsWithAcronym: "Mike API", but not "Mike FABIAN".
func (n *fullName) endsWithAcronym() bool {
	last := n.last()
	return last.allCaps && !n.isAllCaps() && (last.kind&lexicon.Surname == 0 || last.end-last.start < 4)
}

// isAllCaps: "JANE ROBERTS".
func (n *fullName) isAllCaps() bool {
	return !slices.ContainsFunc(n.words, func(w nameWord) bool { return !w.allCaps && !w.initial })
}

// endsWithName: the last word of "Ada Lovelace" is a name and no word of English.
func (n *fullName) endsWithName() bool {
	last := n.last().kind
	return last&(lexicon.Given|lexicon.Surname) != 0 && last&lexicon.English == 0
}

// isIntroduced: "written by Zaphod Beeblebrox", "Zaphod Beeblebrox <z@example.org>".
func (n *fullName) isIntroduced() bool { return isIntroduced(n.p.passage, n.start(), n.end()) }

// isInitialAndSurname: "J. Hartley".
func (n *fullName) isInitialAndSurname() bool {
	if n.p.at(n.first().end) != '.' {
		return false
	}
	last := n.last()
	return n.endsWithName() && last.kind&lexicon.Surname != 0 || last.isUnknown() && n.isIntroduced()
}

// isGivenAndSurname: "Ada Lovelace". A rare given name is more often that of a town in "Vila de Xyzow".
func (n *fullName) isGivenAndSurname() bool {
	common := n.first().kind&lexicon.CommonGiven != 0
	if !common && strings.Contains(n.p.text[n.start():n.end()], " de ") {
		return n.isIntroduced()
	}
	return common || n.endsWithName() || n.last().isUnknown() || n.isIntroduced()
}

// isWordAndSurname: "Will Turner", where the given name is a word of English too.
func (n *fullName) isWordAndSurname() bool {
	return n.endsWithName() || !beginsSentence(n.p.passage, n.start()) && !afterArticle(n.p.passage, n.start()) || n.isIntroduced()
}

// hasMiddleInitial: "Xyzow K. Lovelace", where the first word is unknown.
func (n *fullName) hasMiddleInitial() bool {
	return n.first().isUnknown() && slices.ContainsFunc(n.words, func(w nameWord) bool { return w.initial }) &&
		(n.endsWithName() || n.last().isUnknown())
}

// isSpeaker: "Xyzow Kowalski wrote", where the first word is unknown.
func (n *fullName) isSpeaker() bool {
	return n.first().isUnknown() && n.endsWithName() && n.last().kind&lexicon.Surname != 0 && speech[wordAfter(n.p.passage, n.end())]
}
