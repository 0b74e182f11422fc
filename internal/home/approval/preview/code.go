package preview

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of code. What exceeds them is counted.
const (
	maxLines    = 30  // of code that is shown
	maxLine     = 160 // bytes of a line
	aroundLines = 3   // lines before and after one that names the tool
)

// Code describes code with the numbers of its lines: all of it, or if it is long the lines around those
// that name a tool, or its first lines if none does. left reports whether lines are left out, or parts of them.
func Code(code, tool string) (text string, left bool) {
	lines := strings.Split(strings.TrimRight(code, "\n"), "\n")
	show := shownLines(lines, tool)
	var b strings.Builder
	skipped := 0
	skip := func() {
		if skipped > 0 {
			left = true
			fmt.Fprintf(&b, "%s   … %s more lines\n", Indent, Number(skipped))
		}
		skipped = 0
	}
	for i, line := range lines {
		if !show[i] {
			skipped++
			continue
		}
		skip()
		more := ""
		if len(line) > maxLine {
			more, left = fmt.Sprintf("… (%d bytes)", len(line)), true
			line = strings.ToValidUTF8(line[:maxLine], "")
		}
		b.WriteString(codeLine(i, line) + more + "\n")
	}
	skip()
	return strings.TrimSuffix(b.String(), "\n"), left
}

// AllCode returns all lines of code with their numbers.
func AllCode(code string) string {
	lines := strings.Split(strings.TrimRight(code, "\n"), "\n")
	for i, line := range lines {
		lines[i] = codeLine(i, line)
	}
	return strings.Join(lines, "\n")
}

func codeLine(i int, line string) string {
	return strings.TrimRight(fmt.Sprintf("%s%4d  %s", Indent, i+1, Escape(strings.ReplaceAll(line, "\t", "    "))), " ")
}

// shownLines reports for each line whether it is shown.
func shownLines(lines []string, tool string) []bool {
	show := make([]bool, len(lines))
	n := 0
	mark := func(from, to int) {
		for i := max(from, 0); i < min(to, len(lines)) && n < maxLines; i++ {
			if !show[i] {
				show[i] = true
				n++
			}
		}
	}
	if len(lines) <= maxLines {
		mark(0, len(lines))
		return show
	}
	for i, line := range lines {
		if names(line, tool) {
			mark(i-aroundLines, i+aroundLines+1)
		}
	}
	if n == 0 {
		mark(0, maxLines)
	}
	return show
}

// names reports whether a line contains the name of a tool as a word, as the tool or as its function in
// Python is called.
func names(line, tool string) bool {
	word := identifier(tool)
	for rest := identifier(line); word != ""; {
		before, after, found := strings.Cut(rest, word)
		if !found {
			return false
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(after)
		if !isLetter(last) && !isLetter(next) {
			return true
		}
		rest = after
	}
	return false
}

// identifier replaces the characters that a name in Python cannot have, except those that end words.
func identifier(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '/' || r == '.' {
			return '_'
		}
		return r
	}, s)
}

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
