package guardrail

import (
	"strings"
	"unicode/utf8"
)

// checkWide handles a character of several bytes, which may be invisible, and returns
// its length less one. Invisible characters do not end a word, so that they cannot
// hide a phrase.
func (s *scanner) checkWide(i int) int {
	r, n := utf8.DecodeRuneInString(s.text[i:])
	switch {
	case r >= 0xe0000 && r <= 0xe007f, r >= 0xe0100 && r <= 0xe01ef:
		s.addHidden(i, 1)
	case r == '\u202d' || r == '\u202e': // reverses the order of letters
		s.addHidden(i, minHidden)
	case r >= '\u200b' && r <= '\u200f', r >= '\u202a' && r <= '\u202c', r >= '\u2060' && r <= '\u206f', r == '\ufeff':
		s.addHidden(i, 1)
	case r == '\u00ad': // soft hyphen
	case r == '\u2019':
		s.addLetter(i, '\'')
	case r == '\u00a0', r >= '\u2000' && r <= '\u206f': // spaces, dashes and quotes
		s.endWord(i)
	default:
		for k := range n {
			s.addLetter(i+k, s.text[i+k])
		}
	}
	return n - 1
}

// minHidden is the number of consecutive invisible characters that count as hidden
// text: emoji and scripts need one or two, and flags of regions six letters and an end
// tag after the flag.
const minHidden = 4

func (s *scanner) addHidden(i, weight int) {
	if i != s.joined || s.hidden == 0 {
		s.endHidden()
		s.hiddenFrom = i
	}
	s.hidden += weight
	_, n := utf8.DecodeRuneInString(s.text[i:])
	s.joined = i + n
}

// endHidden ends a run of invisible characters.
func (s *scanner) endHidden() {
	flag := s.hiddenFrom >= 4 && s.text[s.hiddenFrom-4:s.hiddenFrom] == "\U0001f3f4"
	if s.hidden >= minHidden && !(flag && s.hidden <= 7) {
		s.add(InjectionHidden, s.hiddenFrom, s.joined)
	}
	s.hidden = 0
}

// isReordering reports whether r is a bidi control or a tag character.
func isReordering(r rune) bool {
	return r == '\u061c' || r == '\u200e' || r == '\u200f' || r >= '\u202a' && r <= '\u202e' ||
		r >= '\u2066' && r <= '\u2069' || r >= 0xe0000 && r <= 0xe007f
}

// hasReordering reports whether text contains such a character.
func hasReordering(text string) bool {
	for _, begins := range []string{"\xd8\x9c", "\xe2\x80", "\xe2\x81", "\xf3\xa0"} {
		if strings.Contains(text, begins) {
			return strings.ContainsFunc(text, isReordering)
		}
	}
	return false
}

// removeReordering returns text without such characters, and the injections at their
// new positions. An injection that consisted of them keeps one byte, so that the
// string around it is still fenced.
func removeReordering(text string, marks []Injection) (string, []Injection) {
	var b strings.Builder
	b.Grow(len(text))
	place := make(map[int]int, 2*len(marks)) // old to new
	for _, m := range marks {
		place[m.Start], place[m.End] = 0, 0
	}
	for i, r := range text {
		if _, wanted := place[i]; wanted {
			place[i] = b.Len()
		}
		if !isReordering(r) {
			_, n := utf8.DecodeRuneInString(text[i:])
			b.WriteString(text[i : i+n])
		}
	}
	if _, wanted := place[len(text)]; wanted {
		place[len(text)] = b.Len()
	}
	moved := make([]Injection, len(marks))
	for i, m := range marks {
		moved[i] = m
		moved[i].Start = place[m.Start]
		moved[i].End = max(place[m.End], moved[i].Start+1)
	}
	return b.String(), moved
}
