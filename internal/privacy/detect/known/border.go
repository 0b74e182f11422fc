package known

import (
	"unicode"
	"unicode/utf8"
)

const (
	letter = 1 << iota
	digit
	high     // part of a rune of several bytes
	gap      // may separate the digits of a number
	thousand // separates thousands in a number
)

const alnum = letter | digit

var class = func() (c [256]uint8) {
	for b := range c {
		switch {
		case b >= '0' && b <= '9':
			c[b] = digit
		case b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z':
			c[b] = letter
		case b >= utf8.RuneSelf:
			c[b] = high
		}
	}
	for _, b := range []byte(" -.()/+") {
		c[b] = gap
	}
	for _, b := range []byte(",_'") {
		c[b] = thousand
	}
	return c
}()

// fold maps ASCII capitals to lower case.
var fold = func() (f [256]byte) {
	for b := range f {
		if f[b] = byte(b); b >= 'A' && b <= 'Z' {
			f[b] |= 0x20
		}
	}
	return f
}()

func folded(buf []byte, text string) []byte {
	for i := range len(text) {
		buf = append(buf, fold[text[i]])
	}
	return buf
}

// begins reports whether a value may begin at i: the character before does not continue it.
// An escape such as "\n" before it does not.
func begins(text string, i int) bool {
	if i == 0 {
		return true
	}
	before, at := class[text[i-1]], class[text[i]]
	if (before|at)&high == 0 {
		return at&alnum == 0 || (before&alnum == 0 || escape(text, i-1)) && (text[i-1] != '_' || at == digit)
	}
	r, _ := utf8.DecodeLastRuneInString(text[:i])
	s, _ := utf8.DecodeRuneInString(text[i:])
	return !joined(r, s)
}

// ends reports whether a value may end at i.
func ends(text string, i int) bool {
	if i == len(text) {
		return true
	}
	before, at := class[text[i-1]], class[text[i]]
	if (before|at)&high == 0 {
		return before&alnum == 0 || at&alnum == 0 && (text[i] != '_' || before == digit)
	}
	r, _ := utf8.DecodeLastRuneInString(text[:i])
	s, _ := utf8.DecodeRuneInString(text[i:])
	return !joined(s, r)
}

// escape reports whether the letter at i is the second character of an escape.
func escape(text string, i int) bool {
	if i == 0 || text[i-1] != '\\' {
		return false
	}
	switch text[i] {
	case 'n', 'r', 't', 'b', 'f':
		return true
	}
	return false
}

// joined reports whether outer continues the word that inner is an end of.
func joined(outer, inner rune) bool {
	return isWordRune(inner) && (isWordRune(outer) || outer == '_' && !unicode.IsDigit(inner))
}

// unspaced are scripts without blanks between words.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao,
	unicode.Khmer, unicode.Myanmar}

func isWordRune(r rune) bool {
	return r != utf8.RuneError && unicode.In(r, unicode.L, unicode.M, unicode.Nd) && !unicode.In(r, unspaced...)
}
