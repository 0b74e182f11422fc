// Package sanitize makes text that others wrote safe to show: what a terminal or a
// reader would obey instead of see is taken out.
//
// It keeps every letter of every script, and knows nothing of what a text means.
package sanitize

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escapes are the sequences that terminals obey: CSI, OSC and the short ones.
var escapes = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]")

// Text is s without escape sequences, without control characters other than
// line feed and tab, and without invisible characters such as bidi marks; the
// two joiners that scripts and emoji need stay. It has at most max bytes, the
// last of them an ellipsis if s had more.
func Text(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.ContainsRune(s, '\x1b') {
		s = escapes.ReplaceAllString(s, "")
	}
	return Truncate(strings.Map(visible, s), max)
}

// Line is Text on one line.
func Line(s string, max int) string {
	return Text(strings.Join(strings.Fields(s), " "), max)
}

// Cut shortens s to at most max bytes, between characters and visibly.
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
