package detect

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/lexicon"
)

const maxNameWord = 32 // bytes

// nameWord is a capitalized word.
type nameWord struct {
	start, end int
	kind       lexicon.Kind
	initial    bool // "J." or "J"
	allCaps    bool
}

// isWord reports whether a word is one of English and no name.
func (w nameWord) isWord() bool {
	return w.kind&lexicon.English != 0 && w.kind&(lexicon.Given|lexicon.Surname) == 0
}

// isGiven reports whether a word is a given name and no word of English.
func (w nameWord) isGiven() bool {
	return w.kind&lexicon.Given != 0 && w.kind&(lexicon.English|lexicon.Thing) == 0
}

// isUnknown reports whether nothing is known about a word.
func (w nameWord) isUnknown() bool { return w.kind == 0 && !w.initial }

// prose is a passage in which names of persons are searched by the words in and around them.
type prose struct {
	*passage
	words lexicon.Words
}

// inIdentifier has the characters before a word that is part of a name in code, a path or a URL.
const inIdentifier = "_@/\\#$%&=+~`."

// capital returns the capitalized word at i, and whether it can be part of a name.
func (p *prose) capital(i int) (w nameWord, ok bool) {
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
			if size = link(p.passage, end); size == 0 {
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
	if end-i >= maxNameWord || p.is(end, digit) || strings.IndexByte("_@\\=(", p.at(end)) >= 0 && end < len(p.text) ||
		p.at(end) == '.' && p.is(end+1, alnum) {
		return w, false
	}
	allCaps := letters > 1 && capitals == letters
	if inner && capitals > 1 && !allCaps {
		return w, false
	}
	w = nameWord{start: i, end: end, initial: letters == 1, allCaps: allCaps}
	if !w.initial {
		w.kind = p.words.Kind(p.text[i:end])
	}
	return w, true
}

// namePrefixes lists the beginnings of names before a second capital.
var namePrefixes = map[string]bool{"Mc": true, "Mac": true, "De": true, "Di": true, "La": true, "Le": true, "Van": true, "Fitz": true,
	"Du": true, "Al": true, "El": true}

// link returns the size of a hyphen or apostrophe between letters at i.
func link(p *passage, i int) int {
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
func (p *prose) followsCapital(i int) bool {
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

// next returns the capitalized word after last, with particles before it.
func (p *prose) next(last nameWord) (w nameWord, ok bool) {
	i := last.end
	if last.initial && p.at(i) == '.' {
		i++
	}
	for range 3 {
		at := blank(p.passage, i)
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
func blank(p *passage, i int) int {
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

// listed returns the capitalized word after a separator of a list at i.
func (p *prose) listed(i int) (w nameWord, ok bool) {
	for _, sep := range []string{", and ", ", ", " and ", " or ", " & "} {
		if strings.HasPrefix(p.text[i:], sep) {
			return p.capital(i + len(sep))
		}
	}
	return w, false
}

// previous returns the start of the capitalized word before the one at i in a list, or -1.
func previous(p *passage, i int) int {
	for _, sep := range []string{", and ", ", ", " and ", " or ", " & "} {
		if !strings.HasSuffix(p.text[max(0, i-len(sep)):i], sep) {
			continue
		}
		end := i - len(sep)
		start := end
		for start > 0 && end-start < maxNameWord && (p.is(start-1, letter|high) || p.at(start-1) == '-' || p.at(start-1) == '\'') {
			start--
		}
		if start < end && p.is(start, upper|high) {
			return start
		}
	}
	return -1
}

// lowerWord returns the word in lower case at i, and whether it can be part of a name.
func (p *prose) lowerWord(i int) (w nameWord, ok bool) {
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
	return nameWord{start: i, end: end, kind: p.words.Kind(p.text[i:end])}, true
}
