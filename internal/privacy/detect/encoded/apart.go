package encoded

import (
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// between may stand between characters that are apart.
var between = func() (t [256]bool) {
	for _, b := range []byte(" -._,*/|\n\r\t'\":;\\") {
		t[b] = true
	}
	return t
}()

const widest = 6 // bytes of a separator, as in "', '" and "', '0x"

// apart looks into what has one and the same separator between all its
// characters, or between pairs of hexadecimal digits.
func (f Finder) apart(text string) []detect.Finding {
	a := apart{text: text, chars: sheet{Finder: f, source: text, loose: true}, pairs: sheet{Finder: f, source: text}}
	for i := 1; i < len(text); i++ {
		if between[text[i]] && a.likely(i) {
			a.separator(i)
		}
	}
	return append(a.chars.done(), a.pairs.done()...)
}

type apart struct {
	text         string
	chars, pairs sheet
	ends         [widest + 1][2]int // of what was found with a separator of that size
}

// likely passes over most separators: there is more of it, or it comes again.
func (a *apart) likely(i int) bool {
	if i+3 >= len(a.text) {
		return false
	}
	t, b := a.text[i+1:i+4], a.text[i]
	return t[1] == b || t[2] == b || between[t[0]] || t[0] == '0' || t[0] == 'x' || t[0] >= utf8.RuneSelf
}

// separator tries what begins at i as separators of all sizes.
func (a *apart) separator(i int) {
	single := true
	for size := 1; size <= widest && i+size < len(a.text); size++ {
		b := a.text[i+size-1]
		single = single && between[b]
		if single && i >= a.ends[size][0] && a.again(i, size, 1) {
			a.ends[size][0] = a.chain(&a.chars, i, size, character, characterBefore)
		}
		if i >= a.ends[size][1] && a.again(i, size, 2) {
			a.ends[size][1] = a.chain(&a.pairs, i, size, pair, pairBefore)
		}
		if !single && b != '0' && b != 'x' {
			return
		}
	}
}

// again reports whether the separator at i can come again behind a unit of width
// bytes: most do not.
func (a *apart) again(i, size, width int) bool {
	to := i + size + width
	return to < len(a.text) && (a.text[to] == a.text[i] || width == 1 && a.text[to-1] >= utf8.RuneSelf)
}

// chain looks at units with the separator text[i:i+size] between them and returns
// where it stopped: at i, if they are too few.
func (a *apart) chain(s *sheet, i, size int, unit, before func(string, int) int) int {
	text, sep := a.text, a.text[i:i+size]
	n, end := 1, i
	for end+size < len(text) && text[end:end+size] == sep {
		w := unit(text, end+size)
		if w == 0 {
			break
		}
		n, end = n+1, end+size+w
	}
	first := before(text, i)
	if n < shortest || first == 0 {
		return i
	}
	a.write(s, i-first, end, size, unit)
	return end
}

// write puts the units of text[at:end]. A first or last one that is the end of a
// word is none.
func (a *apart) write(s *sheet, at, end, size int, unit func(string, int) int) {
	text := a.text
	s.gap()
	for i := at; i < end; {
		w := unit(text, i)
		glued := i == at && wordEnd(text[:i]) || i+w == end && wordStart(text[end:])
		if s == &a.pairs {
			s.put(four[text[i]]<<4|four[text[i+1]], a.from(i), i+2)
		} else if !glued {
			s.plain(i, i+w)
		}
		i += w + size
	}
	s.gap()
}

// from takes an "0x" or "\x" in front of a pair at i with it.
func (a *apart) from(i int) int {
	if i >= 2 && a.text[i-1] == 'x' && (a.text[i-2] == '0' || a.text[i-2] == '\\') {
		return i - 2
	}
	return i
}

func character(text string, i int) int {
	if text[i] < utf8.RuneSelf {
		return 1
	}
	_, size := utf8.DecodeRuneInString(text[i:])
	return size
}

func characterBefore(text string, i int) int {
	_, size := utf8.DecodeLastRuneInString(text[:i])
	return size
}

func pair(text string, i int) int {
	if i+1 < len(text) && four[text[i]] != no && four[text[i+1]] != no {
		return 2
	}
	return 0
}

func pairBefore(text string, i int) int {
	if i < 2 {
		return 0
	}
	return pair(text, i-2)
}

func wordEnd(text string) bool {
	return len(text) > 0 && !between[text[len(text)-1]] && six[text[len(text)-1]] < 62
}

func wordStart(text string) bool { return len(text) > 0 && six[text[0]] < 62 }
