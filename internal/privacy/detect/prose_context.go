package detect

import "strings"

// isStreet reports whether the words are part of an address, by the numbers around them.
func isStreet(p *passage, start, end int) bool {
	if p.at(start-1) == ' ' && p.is(start-2, digit) {
		first := start - 2
		for start-first < 8 && p.is(first-1, digit) {
			first--
		}
		if c := p.at(first - 1); (c == 0 || c == ' ' || c == '\n' || c == '>') && !isYear(p, first) { // nor a date or time
			return true
		}
	}
	line := p.text[max(0, start-60):start]
	if strings.Contains(line[strings.LastIndexByte(line, '\n')+1:], "corner of ") {
		return true
	}
	return p.at(end) == ' ' && p.is(end+1, digit) && !p.is(end+5, digit) && !isYear(p, end+1)
}

// isYear reports whether the digits at i are a year.
func isYear(p *passage, i int) bool {
	return (strings.HasPrefix(p.text[i:], "19") || strings.HasPrefix(p.text[i:], "20")) && p.is(i+2, digit) && p.is(i+3,
		digit) && !p.is(i+4, digit)
}

func afterArticle(p *passage, start int) bool { return follows(p, start, articles) }

// isIntroduced reports whether the text around a name confirms that it is one: a mail address
// after it, or words before it.
func isIntroduced(p *passage, start, end int) bool {
	if after := p.text[end:min(len(p.text), end+80)]; strings.HasPrefix(after, " <") || strings.HasPrefix(after, "  <") ||
		strings.HasPrefix(after, " (") || strings.HasPrefix(after, "\n<") {
		address, _, _ := strings.Cut(after[2:], " ")
		if strings.Contains(address, "@") {
			return true
		}
	}
	if p.at(start-1) == ' ' && p.at(start-2) == '[' && (strings.HasPrefix(p.text[end:], " ]") || p.at(end) == ']') {
		return true
	}
	return follows(p, start, introductions)
}

// follows reports whether one of the texts, which are in lower case, is directly before start.
func follows(p *passage, start int, texts []string) bool {
	before := strings.TrimRight(p.text[max(0, start-24):start], " ")
	if before == "" {
		return false
	}
	last := before[len(before)-1]
	if class[last]&upper != 0 {
		last |= 0x20
	}
	for _, t := range texts {
		at := len(before) - len(t)
		if at >= 0 && t[len(t)-1] == last && strings.EqualFold(before[at:], t) && (at == 0 || class[before[at-1]]&(alnum|high) == 0) {
			return true
		}
	}
	return false
}

// wordAfter returns the lower-case word after a space at i, or what begins with an apostrophe there.
func wordAfter(p *passage, i int) string {
	start := i
	if p.at(i) == ' ' {
		start++
	} else if p.at(i) != '\'' && !strings.HasPrefix(p.text[min(i, len(p.text)):], "’") {
		return ""
	}
	end := start
	for end-start < 16 && (p.is(end, lower) || p.at(end) == '\'' || p.at(end) == '-' || start == i && p.is(end, high)) {
		end++
	}
	return p.text[min(start, len(p.text)):end]
}

// endsClause reports whether a clause ends at i.
func endsClause(p *passage, i int) bool {
	return i == len(p.text) || strings.IndexByte(".,;!?\n)<", p.at(i)) >= 0
}

// beginsSentence reports whether a sentence begins at i.
func beginsSentence(p *passage, i int) bool {
	before := strings.TrimRight(p.text[max(0, i-4):i], " ")
	return before == "" || strings.IndexByte(".!?\n>\"", before[len(before)-1]) >= 0
}
