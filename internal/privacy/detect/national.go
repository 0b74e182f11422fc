package detect

import (
	"bytes"
	"strings"
)

// addNational examines a number without a country code. A number in North American
// format, or in groups with a leading zero, is a phone number; any other needs a hint.
func addNational(p *passage, start int, g digits) {
	if end, ok := northAmerican(p, start); ok {
		h := p.hint(start)
		if h != hintVersion && (h != hintNumber || strings.ContainsAny(p.text[start:end], "-(")) {
			p.add(start, extensionEnd(p, end), 0.85)
		}
		return
	}
	if len(g.all) > 15 || p.is(g.end, alnum) && p.at(g.end) != 'x' || p.at(g.end) == '.' && p.is(g.end+1, digit) {
		return
	}
	if p.at(g.end) == ':' && p.is(g.end+1, digit) || isDate(g) {
		return
	}
	h := p.hint(start)
	switch {
	case h == hintPhone && len(g.all) >= 7, (h == hintPhone || h == hintNone) && len(g.groups) > 1 && len(g.all) >= 6 && hasContactLabel(p,
		g.end):
		p.add(start, extensionEnd(p, g.end), 0.65)
	case h == hintNone && (isZIP(p, start, g) || isPaddedQuad(g)):
	case h == hintNone && (hasExitPrefix(p, start, g) || hasTrunkZero(g) || hasAreaCode(p, start, g)):
		p.add(start, extensionEnd(p, g.end), 0.6)
	}
}

// northAmerican matches (212) 555-0123, 212-555-0123, 212.555.0123 and the same with a
// leading 1.
func northAmerican(p *passage, i int) (end int, ok bool) {
	if p.at(i) == '1' && !p.is(i+1, digit) {
		if i++; !separates(p, i) {
			return 0, false
		}
		i++
		if p.at(i-1) == '(' {
			i--
		}
	}
	open := p.at(i) == '('
	if open {
		i++
	}
	if !p.run(i, 3) || p.text[i] < '2' {
		return 0, false
	}
	i += 3
	sep := p.at(i)
	switch {
	case open && sep == ')':
		i++
		if p.at(i) == ' ' || p.at(i) == '-' {
			i++
		}
		sep = 0
	case open || sep != '-' && sep != '.' && sep != ' ':
		return 0, false
	default:
		i++
	}
	if !p.run(i, 3) || p.text[i] < '2' && sep == ' ' {
		return 0, false
	}
	i += 3
	if s := p.at(i); s != '-' && s != '.' && s != ' ' || sep != 0 && s != sep && s != '-' {
		return 0, false
	}
	i++
	if !p.run(i, 4) {
		return 0, false
	}
	i += 4
	if p.is(i, digit) || p.at(i) == '-' && p.is(i+1, digit) || p.at(i) == '.' && p.is(i+1, digit) {
		return 0, false
	}
	return i, true
}

// hasExitPrefix reports whether g begins with the international prefix 00.
func hasExitPrefix(p *passage, start int, g digits) bool {
	rest, ok := bytes.CutPrefix(g.all, []byte("00"))
	if !ok || len(g.groups) < 2 {
		return false
	}
	code := country(rest)
	plan := countries[string(rest[:code])]
	return code > 0 && len(rest)-code >= plan.least && len(rest)-code <= plan.most
}

// isZIP reports whether g is a ZIP code of nine digits in an address: after the letters of a
// state, or before the country.
func isZIP(p *passage, start int, g digits) bool {
	if len(g.groups) != 2 || g.groups[0] != 5 || g.groups[1] != 4 || p.at(start+5) != '-' {
		return false
	}
	state := strings.TrimRight(p.text[max(0, start-6):start], " ")
	n := len(state)
	if n >= 3 && n < 6 && class[state[n-1]]&class[state[n-2]]&upper != 0 && class[state[n-3]]&alnum == 0 {
		return true
	}
	after := strings.TrimLeft(p.text[min(g.end, len(p.text)):min(len(p.text), g.end+8)], ", ")
	return strings.HasPrefix(after, "US") || strings.HasPrefix(after, "United")
}

// hasAreaCode reports whether g begins with an area code in parentheses.
func hasAreaCode(p *passage, start int, g digits) bool {
	if p.at(start) != '(' || len(g.groups) < 2 || len(g.all) < 8 || len(g.all) > 12 {
		return false
	}
	size := g.groups[0]
	return size >= 2 && size <= 5 && p.at(start+1+size) == ')' && g.groups[1] >= 2
}

// extensionEnd returns the end of "x123" or "ext. 12" at end, or end.
func extensionEnd(p *passage, end int) int {
	i := end
	for p.at(i) == ' ' && i-end < 2 {
		i++
	}
	rest := strings.ToLower(p.text[min(i, len(p.text)):min(i+10, len(p.text))])
	for _, mark := range []string{"extension", "ext.", "ext", "x"} {
		if !strings.HasPrefix(rest, mark) {
			continue
		}
		i += len(mark)
		if p.at(i) == ' ' {
			i++
		}
		first := i
		for p.is(i, digit) && i-first < 6 {
			i++
		}
		if i > first && !p.is(i, alnum) {
			return i
		}
		return end
	}
	return end
}
