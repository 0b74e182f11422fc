package pysource

import "strings"

// line is a logical line: a statement, or the head of a compound one.
type line struct {
	indent int    // characters of white space before it
	text   string // without comments; a line break in brackets is a space
}

func isQuote(c byte) bool   { return c == '"' || c == '\'' }
func isOpening(c byte) bool { return c == '(' || c == '[' || c == '{' }
func isClosing(c byte) bool { return c == ')' || c == ']' || c == '}' }

// logicalLines splits source into its logical lines. Blank lines and comments are left out.
func logicalLines(source string) (lines []line) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	for i := 0; i < len(source); {
		start := i
		for i < len(source) && (source[i] == ' ' || source[i] == '\t' || source[i] == '\f') {
			i++
		}
		indent := i - start
		text, end := logicalLine(source, i)
		if text != "" {
			lines = append(lines, line{indent, text})
		}
		i = end
	}
	return lines
}

// logicalLine returns the logical line that begins at i, and the position after it.
func logicalLine(source string, i int) (text string, end int) {
	var b strings.Builder
	depth := 0
	space := func() {
		if s := b.String(); s != "" && s[len(s)-1] != ' ' && !isOpening(s[len(s)-1]) {
			b.WriteByte(' ')
		}
	}
	for i < len(source) {
		c := source[i]
		switch {
		case c == '\n' && depth == 0:
			return strings.TrimSpace(b.String()), i + 1
		case c == '\n' || c == ' ' || c == '\t':
			space()
			i++
		case c == '#':
			if n := strings.IndexByte(source[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(source)
			}
		case c == '\\' && i+1 < len(source) && source[i+1] == '\n':
			space()
			i += 2
		case isQuote(c):
			n := stringEnd(source, i)
			b.WriteString(source[i:n])
			i = n
		default:
			if isOpening(c) {
				depth++
			} else if isClosing(c) {
				depth = max(0, depth-1)
			}
			b.WriteByte(c)
			i++
		}
	}
	return strings.TrimSpace(b.String()), i
}

// stringEnd returns the position after the string literal whose first quote is at i. One that is
// not closed ends with its line, or with the source if it has three quotes.
func stringEnd(source string, i int) int {
	quote := source[i : i+1]
	long := strings.HasPrefix(source[i:], strings.Repeat(quote, 3))
	if long {
		quote = strings.Repeat(quote, 3)
	}
	for i += len(quote); i < len(source); i++ {
		switch {
		case source[i] == '\\':
			i++
		case source[i] == '\n' && !long:
			return i
		case strings.HasPrefix(source[i:], quote):
			return i + len(quote)
		}
	}
	return len(source)
}

var escapes = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\"`, `"`, `\'`, `'`, "\\\n", "")

// docstring returns the text of a line that is a single string literal, dedented.
func docstring(text string) (doc string, ok bool) {
	quoted := strings.TrimLeft(text, "rRuU")
	if quoted == "" || !isQuote(quoted[0]) || stringEnd(quoted, 0) != len(quoted) {
		return "", false
	}
	n := 1
	if len(quoted) >= 6 && strings.HasPrefix(quoted, strings.Repeat(quoted[:1], 3)) {
		n = 3
	}
	if len(quoted) < 2*n {
		return "", false
	}
	doc = quoted[n : len(quoted)-n]
	if !strings.ContainsAny(text[:len(text)-len(quoted)], "rR") {
		doc = escapes.Replace(doc)
	}
	return dedent(doc), true
}

// dedent removes the common indentation of all lines but the first, as inspect.cleandoc does.
func dedent(text string) string {
	lines := strings.Split(text, "\n")
	margin := -1
	for _, l := range lines[1:] {
		if rest := strings.TrimLeft(l, " \t"); rest != "" && (margin < 0 || len(l)-len(rest) < margin) {
			margin = len(l) - len(rest)
		}
	}
	for i, l := range lines {
		if i > 0 && margin > 0 {
			l = l[min(margin, len(l)):]
		}
		lines[i] = strings.TrimRight(l, " \t")
	}
	lines[0] = strings.TrimLeft(lines[0], " \t")
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
