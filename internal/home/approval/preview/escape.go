package preview

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape escapes the characters of a text that are not visible as themselves: line ends, changes
// of direction, zero-width characters and control characters of terminals.
func Escape(s string) string {
	var b strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case visible(r):
			b.WriteString(rest[:size])
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		rest = rest[size:]
	}
	return b.String()
}

func visible(r rune) bool {
	return unicode.IsPrint(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && !unicode.Is(unicode.Variation_Selector, r)
}
