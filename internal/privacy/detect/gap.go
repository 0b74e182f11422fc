package detect

import "strings"

// gaps are the multi-byte blanks, hyphens and zero-width characters.
var gaps = []string{
	"\u00a0", "\u00ad", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
	"\u200b", "\u200c", "\u200d",
	"\u2010", "\u2011", "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff",
}

// Gap returns the size of the blank, line break or hyphen at the beginning of text, or 0.
// Formatting adds gaps to a value or replaces its own.
func Gap(text string) int {
	if text == "" {
		return 0
	}
	switch c := text[0]; {
	case c == ' ' || c == '-' || c >= '\t' && c <= '\r':
		return 1
	case c == 0xC2 || c == 0xE2 || c == 0xE3 || c == 0xEF:
		for _, g := range gaps {
			if strings.HasPrefix(text, g) {
				return len(g)
			}
		}
	}
	return 0
}

// Squeeze returns text without its gaps.
func Squeeze(text string) string {
	var b strings.Builder
	from := 0
	for i := 0; i < len(text); {
		n := Gap(text[i:])
		if n == 0 {
			i++
			continue
		}
		b.WriteString(text[from:i])
		i += n
		from = i
	}
	if from == 0 {
		return text
	}
	b.WriteString(text[from:])
	return b.String()
}
