package redact

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

func hasWord(text string) bool { return strings.ContainsFunc(text, isWord) }

func isWord(r rune) bool { return unicode.In(r, unicode.L, unicode.M, unicode.N) }

// isSameWord reports whether a word continues from the end of before into after.
func isSameWord(before, after string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	return before != "" && after != "" && isWord(last) && isWord(first)
}
