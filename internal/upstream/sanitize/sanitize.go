// Package sanitize makes foreign text safe to display. It removes terminal escape
// sequences, control characters and invisible characters.
//
// It keeps the letters of all scripts and does not interpret the text.
package sanitize

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escapes matches terminal escape sequences: CSI, OSC and the short forms.
var escapes = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]")

// Text returns s without escape sequences, without control characters other than line
// feed and tab, and without invisible characters such as bidi marks; the two joiners
// that scripts and emoji need are kept. The result has at most max bytes and ends with
// an ellipsis if it was truncated.
func Text(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.ContainsRune(s, '\x1b') {
		s = escapes.ReplaceAllString(s, "")
	}
	return Truncate(strings.Map(visible, s), max)
}

// Line is Text with white space collapsed to one line.
func Line(s string, max int) string {
	return Text(strings.Join(strings.Fields(s), " "), max)
}

// Truncate shortens s to at most max bytes at a character boundary and appends an
// ellipsis.
func Truncate(s string, max int) string {
	if len(s) <= max {
		return s
	}
	const more = "…"
	end := max - len(more)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + more
}

func visible(r rune) rune {
	const nonJoiner, joiner = '\u200c', '\u200d'
	switch {
	case r == '\n' || r == '\t' || r == nonJoiner || r == joiner:
		return r
	case r == '\u2028' || r == '\u2029':
		return '\n'
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co):
		return -1
	}
	return r
}
