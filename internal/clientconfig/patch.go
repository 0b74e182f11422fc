package clientconfig

import "strings"

// noNewline is the line of a diff after the last line of a text without a final
// line end. The text itself gets the line noNewlineMark instead.
const (
	noNewline     = "\\ No newline at end of file\n"
	noNewlineMark = "\x00\n"
)

// applyDiff applies a unified diff to a text that may differ elsewhere. It
// ignores the line numbers: each hunk must match at exactly one place, with
// three lines of context or fewer, but at least one where the diff has it.
func applyDiff(text, diff string) (string, bool) {
	_, hunks, ok := strings.Cut(diff, "\n@@ ")
	if !ok || strings.Contains(text+diff, "\x00") {
		return "", false
	}
	text = "\n" + text // each line follows a line end
	if !strings.HasSuffix(text, "\n") {
		text += "\n" + noNewlineMark
	}
	for hunk := range strings.SplitSeq(hunks, "\n@@ ") {
		_, body, _ := strings.Cut(hunk, "\n")
		if text, ok = applyHunk(text, strings.SplitAfter(strings.TrimSuffix(body, "\n")+"\n", "\n")); !ok {
			return "", false
		}
	}
	if rest, ok := strings.CutSuffix(text, "\n"+noNewlineMark); ok {
		text = rest
	}
	return strings.TrimPrefix(text, "\n"), true
}

func applyHunk(text string, lines []string) (string, bool) {
	for context := 3; context > 0; context-- {
		from, to := sides(lines, context)
		if from != "" && strings.Count(text, "\n"+from) == 1 {
			return strings.Replace(text, "\n"+from, "\n"+to, 1), true
		}
	}
	return "", false
}

// sides returns the text before and after a hunk, with at most a number of lines
// of context at either end.
func sides(lines []string, context int) (from, to string) {
	first, last := len(lines), 0
	for i, line := range lines {
		if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+") {
			first, last = min(first, i), i
		}
	}
	sign := byte(' ')
	for i, line := range lines {
		if line == "" {
			continue
		}
		if line == noNewline { // has the sign of the line before
			line = noNewlineMark
		} else {
			sign, line = line[0], line[1:]
		}
		if i < first-context || i > last+context {
			continue
		}
		if sign != '+' {
			from += line
		}
		if sign != '-' {
			to += line
		}
	}
	return from, to
}
