package pysource

import "strings"

// OneLine returns an expression on one line, without comments. Line breaks in strings remain.
func OneLine(expression string) string {
	text, _ := logicalLine("("+expression+"\n)", 0)
	if Closing(text) < len(text) { // (a) + (b)
		return strings.TrimSuffix(text, " )") + ")"
	}
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(text, "("), ")"))
}

// InStrings reports for each line of source whether it begins inside a string literal.
func InStrings(source string) []bool {
	lines := []bool{false}
	for i := 0; i < len(source); {
		end, quoted := i+1, isQuote(source[i])
		if quoted {
			end = stringEnd(source, i)
		} else if n := strings.IndexByte(source[i:], '\n'); source[i] == '#' && n >= 0 {
			end = i + n
		}
		for range strings.Count(source[i:end], "\n") {
			lines = append(lines, quoted)
		}
		i = end
	}
	return lines
}
