package detect

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// proseScore is the score of a name that is found by the words of which it consists. Such
// a name is not evidence that a value under "name" is one.
const proseScore = 0.65

const (
	maxRun      = 6   // words that are examined together
	maxNameWord = 32  // bytes
	minLower    = 4   // letters of a given name in lower case
	repeatedIn  = 512 // maximum distance in bytes of a part of a name from the whole
	maxRepeated = 4   // places where a part of a name is examined, before and after it
)

// nameWord is a capitalized word.
type nameWord struct {
	start, end int
	kind       wordKind
	initial    bool // "J." or "J"
	allCaps    bool
}

// isWord reports whether a word is one of English and no name.
func (w nameWord) isWord() bool { return w.kind&english != 0 && w.kind&(given|surname) == 0 }

// isGiven reports whether a word is a given name and no word of English.
func (w nameWord) isGiven() bool { return w.kind&given != 0 && w.kind&(english|thing) == 0 }

// isUnknown reports whether nothing is known about a word.
func (w nameWord) isUnknown() bool { return w.kind == 0 && !w.initial }

// prose adds the names of persons that begin in text[lo:hi], by the words in and around them.
func (p *pass) prose(lo, hi int) {
	for i := lo; i < hi; i++ {
		if class[p.text[i]]&(letter|high) == 0 || i > 0 && class[p.text[i-1]]&(tokens|high) != 0 {
			continue
		}
		if class[p.text[i]]&lower != 0 {
			p.lowerPair(i)
		} else if first, ok := p.capital(i); ok && !p.followsCapital(i) {
			p.capitals(first)
		}
	}
}

// inIdentifier has the characters before a word that is part of a name in code, a path or a URL.
const inIdentifier = "_@/\\#$%&=+~`."

// capital returns the capitalized word at i, and whether it can be part of a name.
func (p *pass) capital(i int) (w nameWord, ok bool) {
	if i > 0 && strings.IndexByte(inIdentifier, p.text[i-1]) >= 0 {
		return w, false
	}
	r, size := utf8.DecodeRuneInString(p.text[i:])
	if !unicode.IsUpper(r) {
		return w, false
	}
	end, letters, capitals, inner := i+size, 1, 1, false
	for end-i < maxNameWord && end < len(p.text) {
		r, size = utf8.DecodeRuneInString(p.text[end:])
		if !unicode.IsLetter(r) {
			if size = p.link(end); size == 0 {
				break
			}
			r, _ = utf8.DecodeRuneInString(p.text[end+size:])
			if unicode.IsUpper(r) {
				capitals--
			}
			end += size
			continue
		}
		if letters++; unicode.IsUpper(r) {
			capitals++
			inner = inner || !namePrefixes[p.text[i:end]]
		}
		end += size
	}
	if end-i >= maxNameWord || p.is(end, digit) || strings.IndexByte("_@\\=(", p.at(end)) >= 0 && end < len(p.text) || p.at(end) == '.' && p.is(end+1, alnum) {
		return w, false
	}
	allCaps := letters > 1 && capitals == letters
	if inner && capitals > 1 && !allCaps {
		return w, false
	}
	w = nameWord{start: i, end: end, initial: letters == 1, allCaps: allCaps}
	if !w.initial {
		w.kind = p.kind(p.text[i:end])
	}
	return w, true
}

// namePrefixes lists the beginnings of names before a second capital.
var namePrefixes = map[string]bool{"Mc": true, "Mac": true, "De": true, "Di": true, "La": true, "Le": true, "Van": true, "Fitz": true, "Du": true, "Al": true, "El": true}

// link returns the size of a hyphen or apostrophe between letters at i.
func (p *pass) link(i int) int {
	size := 1
	if strings.HasPrefix(p.text[i:], "’") {
		size = len("’")
	} else if p.text[i] == '-' && p.is(i+1, letter|high) {
		return 1
	} else if p.text[i] != '\'' {
		return 0
	}
	stop := i + size
	for stop-i < 8 && p.is(stop, letter|high) {
		stop++
	}
	switch p.text[i+size : stop] {
	case "", "s", "t", "ll", "re", "ve", "d", "m":
		return 0
	}
	return size
}

// followsCapital reports whether the word at i continues a run of capitalized words.
func (p *pass) followsCapital(i int) bool {
	last := i
	for last > 0 && i-last < 2 && p.text[last-1] == ' ' {
		last--
	}
	if last == i {
		return false
	}
	if p.at(last-1) == '.' && p.is(last-2, upper) && !p.is(last-3, alnum|high) {
		return true
	}
	first := last
	for first > 0 && last-first < maxNameWord && (p.is(first-1, letter|high) || p.at(first-1) == '-' || p.at(first-1) == '\'') {
		first--
	}
	if first == last || !p.is(first, upper|high) {
		return false
	}
	w, ok := p.capital(first)
	return ok && w.end == last
}

// capitals examines the capitalized words from first.
func (p *pass) capitals(first nameWord) {
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
		n := 0
		for b := min(len(words), a+4); b-a >= 2; b-- {
			if p.isFullName(words, a, b) {
				n = b - a
				break
			}
		}
		if n > 0 {
			p.add(Name, words[a].start, words[a+n-1].end, proseScore)
			p.repeated(words[a], words[a+n-1], words[a].start, words[a+n-1].end)
			a += n - 1
		} else if a == len(words)-1 && p.isName(words, a) {
			p.add(Name, words[a].start, words[a].end, proseScore)
		}
	}
}

// next returns the capitalized word after last, with particles before it.
func (p *pass) next(last nameWord) (w nameWord, ok bool) {
	i := last.end
	if last.initial && p.at(i) == '.' {
		i++
	}
	for range 3 {
		at := p.blank(i)
		if at == i {
			return w, false
		}
		if w, ok = p.capital(at); ok {
			return w, true
		}
		i = at
		for i-at < 6 && p.is(i, lower) {
			i++
		}
		if !particles[p.text[at:i]] {
			return w, false
		}
	}
	return w, false
}

// blank returns the end of one or two spaces at i, or of the break of a wrapped line.
func (p *pass) blank(i int) int {
	switch {
	case p.at(i) == ' ' && p.at(i+1) == ' ' && p.at(i+2) != ' ':
		return i + 2
	case p.at(i) == ' ' && p.at(i+1) != ' ':
		return i + 1
	case p.at(i) == '\n' && !strings.Contains(p.text[max(0, i-50):i], "\n") && i >= 50:
		at := i + 1
		for at-i < 10 && p.at(at) == ' ' {
			at++
		}
		return at
	}
	return i
}

// isFullName reports whether words[a:b] are a given name and a surname, or other words that
// are a name by their context. The other words follow or precede them directly.
func (p *pass) isFullName(words []nameWord, a, b int) bool {
	first, last := words[a], words[b-1]
	if last.initial {
		return false
	}
	start, end := first.start, last.end
	allCaps, initials := true, 0
	for i, w := range words[a:b] {
		if w.isWord() || w.kind&thing != 0 && (a+i+1 < b || w.kind&surname == 0 || !p.introduced(start, end)) {
			return false
		}
		allCaps = allCaps && (w.allCaps || w.initial)
		if w.initial {
			initials++
		}
	}
	for _, w := range words[b:] {
		if w.kind&thing != 0 {
			return false
		}
	}
	if p.isStreet(start, end) || p.isThing(start, end) {
		return false
	}
	sure := last.kind&(given|surname) != 0 && last.kind&english == 0
	if last.allCaps && !allCaps && (last.kind&surname == 0 || last.end-last.start < 4) {
		return false
	}
	switch {
	case allCaps:
		return first.isGiven() && first.kind&commonGiven != 0 && sure
	case first.initial:
		return p.at(first.end) == '.' && (sure && last.kind&surname != 0 || last.isUnknown() && p.introduced(start, end))
	case first.isGiven():
		if first.kind&commonGiven == 0 && strings.Contains(p.text[start:end], " de ") { // as in names of towns
			return p.introduced(start, end)
		}
		return sure || last.isUnknown() || first.kind&commonGiven != 0 || p.introduced(start, end)
	case first.kind&given != 0:
		return sure || !p.sentence(start) && !p.afterArticle(start) || p.introduced(start, end)
	case first.isUnknown() && initials > 0 && (sure || last.isUnknown()):
		return true
	case first.isUnknown() && sure && last.kind&surname != 0 && speech[p.wordAfter(end)]:
		return true
	}
	return p.introduced(start, end)
}

// isName reports whether words[a], the last of a run, is a name alone by its context.
func (p *pass) isName(words []nameWord, a int) bool {
	w := words[a]
	if w.initial || w.allCaps || w.kind&thing != 0 || a > 1 {
		return false
	}
	text := p.text[w.start:w.end]
	if a == 1 {
		switch before := p.text[words[0].start:words[0].end]; {
		case titles[before]:
			return !w.isWord()
		case words[0].kind&english == 0 || before == "The":
			return false
		}
	}
	if p.after(w.start, introductions) && !w.isWord() && (w.kind != 0 || p.endsClause(w.end)) {
		return true
	}
	if p.inGroup(w) {
		return true
	}
	if w.isWord() || places[fold(text)] {
		return false
	}
	if p.inList(w) {
		return true
	}
	if !w.isGiven() {
		return false
	}
	next := p.wordAfter(w.end)
	if next == "'s" || next == "’s" {
		return relations[p.wordAfter(w.end+len(next))]
	}
	if speech[next] && (w.kind&commonGiven != 0 || p.sentence(w.start) || p.after(w.start, addressing)) {
		return true
	}
	return w.kind&commonGiven != 0 && p.after(w.start, addressing) || p.after(w.start, addressing[:9])
}

// repeated adds the first and last word of a name where they occur alone nearby.
func (p *pass) repeated(first, last nameWord, start, end int) {
	for _, w := range []nameWord{first, last} {
		if w.initial || w.kind&english != 0 || w.end-w.start < 3 {
			continue
		}
		p.occurrences(p.text[w.start:w.end], max(0, start-behind), start)
		p.occurrences(p.text[w.start:w.end], end, min(len(p.text), end+repeatedIn))
	}
}

// occurrences adds the first places in text[lo:hi] where a name occurs alone.
func (p *pass) occurrences(name string, lo, hi int) {
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

// lowerPair adds a given name and a surname in lower case at i.
func (p *pass) lowerPair(i int) {
	first, ok := p.lowerWord(i)
	if !ok || first.end-i < minLower || p.at(first.end) != ' ' || !first.isGiven() || first.kind&commonGiven == 0 || places[p.text[i:first.end]] {
		return
	}
	last, ok := p.lowerWord(first.end + 1)
	if ok && last.kind&(english|thing) == 0 && (last.kind&surname != 0 || last.isUnknown() && last.end-last.start > minLower) {
		p.add(Name, first.start, last.end, proseScore)
	}
}

// lowerWord returns the word in lower case at i, and whether it can be part of a name.
func (p *pass) lowerWord(i int) (w nameWord, ok bool) {
	end := i
	for end < len(p.text) && end-i < maxNameWord {
		r, size := utf8.DecodeRuneInString(p.text[end:])
		if !unicode.IsLower(r) {
			break
		}
		end += size
	}
	if end-i >= maxNameWord || p.is(end, tokens|upper) || end < len(p.text) && strings.IndexByte("@\\=(/:", p.text[end]) >= 0 ||
		p.at(end) == '.' && p.is(end+1, alnum) || i > 0 && strings.IndexByte(inIdentifier+"-", p.text[i-1]) >= 0 {
		return w, false
	}
	return nameWord{start: i, end: end, kind: p.kind(p.text[i:end])}, true
}
