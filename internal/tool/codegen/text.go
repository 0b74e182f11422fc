package codegen

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// literal returns s as a Python string literal of printable ASCII characters. A
// server's text enters a module only through literal and docstring, which escape it.
func literal(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	escape(&b, s, false)
	b.WriteByte('"')
	return b.String()
}

// docstring returns s as a triple-quoted literal; all lines but the first are indented.
func docstring(s, indent string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	b.WriteString(`"""`)
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			b.WriteByte('\n')
			if line != "" {
				b.WriteString(indent)
			}
		}
		escape(&b, line, true)
	}
	if strings.Contains(s, "\n") {
		b.WriteString("\n" + indent)
	}
	b.WriteString(`"""`)
	return b.String()
}

// escape writes s so that a literal evaluates to it. Within triple quotes a double
// quote is escaped only at the start or end of s, or after another or a backslash.
func escape(b *strings.Builder, s string, triple bool) {
	for i, r := range s {
		switch {
		case r == '"' && triple && i > 0 && i < len(s)-1 && s[i-1] != '"' && s[i-1] != '\\':
			b.WriteByte('"')
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r >= ' ' && r < 0x7F:
			b.WriteByte(byte(r))
		case r <= 0xFF:
			fmt.Fprintf(b, `\x%02x`, r)
		case r <= 0xFFFF:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
}

// clean removes invisible characters from a description, such as those that
// change the direction of text or hide instructions. It truncates the text after
// limit characters and marks that with " ...".
func clean(s string, limit int) string {
	var b strings.Builder
	n, cut := 0, false
	for _, r := range s {
		r = visible(r)
		if r < 0 {
			continue
		}
		if n++; n > limit {
			cut = true
			break
		}
		b.WriteRune(r)
	}
	text := strings.TrimSpace(b.String())
	if cut {
		text = strings.TrimSpace(text) + " ..."
	}
	return text
}

// visible returns the rune that replaces r in a description, or -1 to remove it.
func visible(r rune) rune {
	switch {
	case r == '\n' || r >= ' ' && r < 0x7F:
		return r
	case r == '\t' || unicode.Is(unicode.Zs, r):
		return ' '
	case r == '\u0085' || r == '\u2028' || r == '\u2029':
		return '\n'
	case !unicode.IsPrint(r), unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point), r >= 0xE0000,
		r == utf8.RuneError:
		return -1
	}
	return r
}

// paragraphs cleans s, removes spaces at the ends of lines and merges consecutive blank
// lines.
func paragraphs(s string, limit int) string {
	var lines []string
	for line := range strings.SplitSeq(clean(s, limit), "\n") {
		line = strings.TrimRight(line, " ")
		if line == "" && (len(lines) == 0 || lines[len(lines)-1] == "") {
			continue
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// oneLine cleans s, joins its lines and truncates it to limit characters.
func oneLine(s string, limit int) string {
	return truncate(strings.Join(strings.Fields(clean(s, 2*limit)), " "), limit)
}

// firstSentence returns the first sentence of a description on one line, truncated to
// limit characters.
func firstSentence(s string, limit int) string {
	s, _, _ = strings.Cut(clean(s, 4*limit), "\n\n")
	s = strings.Join(strings.Fields(s), " ")
	if before, _, found := strings.Cut(s, ". "); found && len(before) > 3 {
		s = before + "."
	}
	return truncate(s, limit)
}

func truncate(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return strings.TrimSpace(string([]rune(s)[:limit-4])) + " ..."
}
