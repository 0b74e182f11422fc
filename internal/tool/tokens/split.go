package tokens

import (
	"unicode"
	"unicode/utf8"
)

// class is the class of a character in the pattern of o200k.
type class uint8

const (
	other   class = iota // not a letter, number, mark or white space
	mark                 // \p{M}: part of a word, and otherwise like other
	upper                // \p{Lu}, \p{Lt}
	lower                // \p{Ll}
	letter               // \p{Lm}, \p{Lo}: upper and lower
	number               // \p{N}
	space                // \s except newlines
	newline              // \r, \n
)

func (c class) isUpper() bool { return c == upper || c == letter || c == mark }
func (c class) isLower() bool { return c == lower || c == letter || c == mark }
func (c class) isSpace() bool { return c == space || c == newline }
func (c class) isOther() bool { return c == other || c == mark }

var ascii = func() (table [utf8.RuneSelf]class) {
	for i := range table {
		table[i] = classify(rune(i))
	}
	return table
}()

func classify(r rune) class {
	switch {
	case r == '\r' || r == '\n':
		return newline
	case unicode.IsSpace(r):
		return space
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper
	case unicode.Is(unicode.Ll, r):
		return lower
	case unicode.In(r, unicode.Lm, unicode.Lo):
		return letter
	case unicode.Is(unicode.M, r):
		return mark
	case unicode.Is(unicode.N, r):
		return number
	default:
		return other
	}
}

// at returns the class of the character at index i and the index after it. At the end it
// returns class 255, which is in no set.
func at(text string, i int) (class, int) {
	if i >= len(text) {
		return 255, i
	}
	if b := text[i]; b < utf8.RuneSelf {
		return ascii[b], i + 1
	}
	r, n := utf8.DecodeRuneInString(text[i:])
	return classify(r), i + n
}

// skip returns the index of the first character from i on that is not in the set.
func skip(text string, i int, in func(class) bool) int {
	for {
		c, next := at(text, i)
		if !in(c) {
			return i
		}
		i = next
	}
}

// firstPiece returns the length of the first piece of a text that is not empty. It does what the
// first match of this regular expression does, whose alternatives are tried in turn:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func firstPiece(text string) int {
	first, second := at(text, 0)
	if first == number {
		return digits(text)
	}
	if n := word(text, first, second); n > 0 {
		return n
	}
	if c, _ := at(text, second); first.isOther() || text[0] == ' ' && c.isOther() {
		n := skip(text, second, class.isOther)
		for n < len(text) && (text[n] == '\r' || text[n] == '\n' || text[n] == '/') {
			n++
		}
		return n
	}
	return spaces(text)
}

// digits returns the length of up to three numbers.
func digits(text string) int {
	i := 0
	for range 3 {
		c, next := at(text, i)
		if c != number {
			break
		}
		i = next
	}
	return i
}

// word returns the length of the word at the beginning, with one character before it and
// an English contraction after it, or 0.
func word(text string, first class, second int) int {
	end := 0
	switch first {
	case newline:
		return 0
	case other, space:
		if end = lowerWord(text, second); end == 0 {
			end = skip(text, second, class.isUpper)
			if end == second {
				return 0
			}
		}
	case mark: // belongs to the word, or is the character before it
		if end = lowerWord(text, second); end == 0 {
			end = lowerWord(text, 0)
		}
	default:
		if end = lowerWord(text, 0); end == 0 {
			end = skip(text, 0, class.isUpper)
		}
	}
	return end + contraction(text[end:])
}

// lowerWord returns the end of capitals and small letters from start on, at least one of
// which is small, or 0. A letter without case, like one of Chinese, is both.
func lowerWord(text string, start int) int {
	last := 0 // end of the last letter that is both
	i := start
	for {
		c, next := at(text, i)
		if !c.isUpper() {
			break
		}
		if c.isLower() {
			last = next
		}
		i = next
	}
	if end := skip(text, i, class.isLower); end > i {
		return end
	}
	return last
}

var contractions = []string{"s", "t", "re", "ve", "m", "ll", "d", "ſ"}

func contraction(text string) int {
	if text == "" || text[0] != '\'' {
		return 0
	}
	for _, c := range contractions {
		if n := 1 + len(c); len(text) >= n && equalFold(text[1:n], c) {
			return n
		}
	}
	return 0
}

// equalFold compares with a text in small letters, and ignores the case of ASCII.
func equalFold(text, small string) bool {
	for i := range len(text) {
		b := text[i]
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		if b != small[i] {
			return false
		}
	}
	return true
}

// spaces returns the length of the white space up to its last newline. If it has none, the
// last character before another one belongs to the next piece.
func spaces(text string) int {
	i, last, newlines := 0, 0, 0
	for {
		c, next := at(text, i)
		if !c.isSpace() {
			break
		}
		if c == newline {
			newlines = next
		}
		last, i = i, next
	}
	switch {
	case newlines > 0:
		return newlines
	case i == len(text) || last == 0:
		return i
	default:
		return last
	}
}
