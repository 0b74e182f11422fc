package known

import (
	"strings"
	"unicode/utf8"
)

// number is a value of 7 to 19 digits, which may have separators. It is found with any
// separators or none, unless it is a part of a longer number.
type number struct {
	digits uint64
	n      int
}

const (
	minDigits = 7
	maxDigits = 19
	maxGap    = 3  // bytes between two digits, as in "555 - 0123"
	maxZeros  = 32 // before a number, as in "000123456789"
)

func (n number) with(b byte) number { return number{n.digits*10 + uint64(b-'0'), n.n + 1} }

// start returns the first digits of the number.
func (n number) start() uint64 {
	d := n.digits
	for range n.n - minDigits {
		d /= 10
	}
	return d
}

// first returns the first digit.
func (n number) first() byte {
	d := n.start()
	for range minDigits - 1 {
		d /= 10
	}
	return '0' + byte(d)
}

// numbersOf returns the numbers by which form is found: its digits, also without the zeros at
// their beginning, as int("0131…") returns them.
func numbersOf(form string) []number {
	n, ok := numberOf(form)
	if !ok {
		return nil
	}
	if short, ok := n.withoutZeros(); ok {
		return []number{n, short}
	}
	return []number{n}
}

// numberOf parses form as a number.
func numberOf(form string) (n number, ok bool) {
	for i := range len(form) {
		switch class[form[i]] {
		case digit:
			if n = n.with(form[i]); n.n > maxDigits {
				return n, false
			}
		case gap:
		default:
			return n, false
		}
	}
	return n, n.n >= minDigits
}

// withoutZeros returns the number without the zeros at its beginning; false if there are none or
// the rest is too short.
func (n number) withoutZeros() (short number, ok bool) {
	for d := n.digits; d > 0; d /= 10 {
		short.n++
	}
	short.digits = n.digits
	return short, short.n < n.n && short.n >= minDigits
}

// thousands lists the separators of thousands that do not otherwise separate digits. The blanks
// and hyphens of package detect are others.
const thousands = ",_'\u2019\u02bc\u066c\u00b7\u02d9\uff0c\uff07"

// grouping is the state of a number whose groups of digits have such a separator.
type grouping struct {
	sep   string // "" if there was none
	start int    // of the last group
	size  int    // of the groups after the first, 0 before the second ends
	gaps  bool   // there were other separators
}

// next returns the position of the digit after the separators at j, -1 if there is none.
// The number begins at i.
func (g *grouping) next(text string, i, j int) int {
	if j+1 >= len(text) || class[text[j]]&(gap|thousand|high) == 0 {
		return -1
	}
	sep, size := separator(text[j:]), j-max(g.start, i)
	if after := j + len(sep); sep != "" && !g.gaps && after < len(text) && class[text[after]] == digit &&
		(g.sep == "" && size <= 4 || g.sep == sep && (g.size == 0 && size >= 2 && size <= 4 || size == g.size)) {
		if g.sep != "" {
			g.size = size
		}
		g.sep, g.start = sep, after
		return after
	}
	from := j
	for j < len(text) && j-from < maxGap && (class[text[j]] == gap || text[j] == '_') {
		j++
	}
	if g.sep != "" && g.sep != "_" || j == from || j == len(text) || class[text[j]] != digit {
		return -1
	}
	g.gaps, g.sep = true, ""
	return j
}

// whole reports whether text[i:j] has no separators of thousands, or complete groups: of three
// digits, of two and then three, or of four. A number that such groups continue is a longer one.
func (g *grouping) whole(text string, i, j int) bool {
	if g.sep == "" {
		return true
	}
	size := j - g.start
	if size != 3 && (size != 4 || g.size == 2) || g.size != 0 && g.size != size && (g.size != 2 || size != 3) {
		return g.sep == "_" // which also replaces a blank, in names of files
	}
	if rest, ok := strings.CutPrefix(text[j:], g.sep); ok && leadingDigits(rest) == size {
		return false
	}
	first := leadingDigits(text[i:])
	before, ok := strings.CutSuffix(text[:i], g.sep)
	return !(ok && first == max(g.size, size) && before != "" && class[before[len(before)-1]] == digit)
}

// leadingDigits counts the digits at the beginning of text, up to 5.
func leadingDigits(text string) (n int) {
	for n < len(text) && n < 5 && class[text[n]] == digit {
		n++
	}
	return n
}

// separator returns the separator of thousands at the beginning of text, or "".
func separator(text string) string {
	if text[0] < utf8.RuneSelf {
		if strings.IndexByte(thousands, text[0]) >= 0 {
			return text[:1]
		}
		return ""
	}
	if r, size := utf8.DecodeRuneInString(text); r != utf8.RuneError && strings.ContainsRune(thousands, r) {
		return text[:size]
	}
	return ""
}
