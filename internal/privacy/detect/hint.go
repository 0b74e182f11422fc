package detect

import "strings"

const maxHint = 64 // maximum distance in bytes of a word before a number

// hint returns the hint of the nearest word before start that has one, within the same
// field: words before a previous value do not apply.
func (p *passage) hint(start int) hint {
	if p.hintAt != start+1 { // several recognizers use the hint of the same token
		p.hintAt, p.hintIs = start+1, nearestHint(p, start)
	}
	return p.hintIs
}

func nearestHint(p *passage, start int) hint {
	i, floor := start, max(0, start-maxHint)
	if p.at(i-1) == '/' { // a part of a path
		return hintNone
	}
	quotes, lines := 0, 0
	for i > floor {
		switch b := p.text[i-1]; {
		case class[b]&letter != 0:
			end := i
			for i > floor && p.is(i-1, letter) {
				i--
			}
			h := hintOfRun(p.text[i:end])
			if p.text[i]|0x20 == 'i' && isTaxNumber(p, i, end) {
				h = hintITIN
			}
			if h != hintNone && !(end-i <= 3 && inBase64(p, i, end)) {
				return h
			}
			continue
		case b == '"' || b == '\'':
			quotes++
		case b == ',' && quotes > 0, b == '}' || b == ';' || b == '|':
			return hintNone
		case b == '\n':
			if lines++; lines > 1 || !endsWithColon(p, i-1) {
				return hintNone
			}
		}
		i--
	}
	return hintNone
}

// isTaxNumber reports whether text[start:end] is the last word of "tax id" or "tax
// identification number".
func isTaxNumber(p *passage, start, end int) bool {
	if p.at(start-2)|0x20 != 'x' && p.at(start-2)|0x20 != 'r' {
		return false
	}
	switch strings.ToLower(p.text[start:end]) {
	case "id", "ids", "identification", "identifier":
		before := strings.ToLower(p.text[max(0, start-9) : start-1])
		return strings.HasSuffix(before, "tax") || strings.HasSuffix(before, "taxpayer")
	}
	return false
}

// inBase64 reports whether a run of few letters is a part of base64 and not a word.
func inBase64(p *passage, start, end int) bool {
	before, after := p.at(start-1), p.at(end)
	return before == '+' || before == '/' || class[before]&digit != 0 || after == '+' || after == '/' ||
		class[p.text[start]]&lower != 0 && class[p.text[end-1]]&upper != 0
}

// endsWithColon reports whether the line that ends at i ends in a colon.
func endsWithColon(p *passage, i int) bool {
	for i > 0 && (p.text[i-1] == ' ' || p.text[i-1] == '\r') {
		i--
	}
	return p.at(i-1) == ':'
}

// hasContactLabel reports whether a word that often follows a phone number in lists of
// contacts is at end.
func hasContactLabel(p *passage, end int) bool {
	for i := 0; i < 3 && strings.IndexByte(" -,(", p.at(end)) >= 0 && p.at(end) != 0; i++ {
		end++
	}
	stop := end
	for stop-end < 12 && p.is(stop, letter) {
		stop++
	}
	switch strings.ToLower(p.text[min(end, len(p.text)):stop]) {
	case "office", "fax", "mobile", "cell", "home", "work", "phone", "tel", "direct":
		return true
	}
	return false
}

// hintWord returns the nearest word before start that suggests a type.
func hintWord(p *passage, start int) string {
	h := nearestHint(p, start)
	if h == hintNone {
		return ""
	}
	before := p.text[max(0, start-maxHint):start]
	for end := len(before); end > 0; end-- {
		for first := end - 1; first >= 0 && class[before[first]]&letter != 0; first-- {
			if word := before[first:end]; hintOfRun(word) == h && (first == 0 || class[before[first-1]]&letter == 0) {
				return word
			}
		}
	}
	return ""
}
