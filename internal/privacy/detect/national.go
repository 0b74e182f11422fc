package detect

import (
	"bytes"
	"slices"
	"strings"
)

// national examines a number without a country code. A number in North American
// format, or in groups with a leading zero, is a phone number; any other needs a hint.
func (p *pass) national(start int, g digits) {
	if end, ok := p.northAmerican(start); ok {
		h := p.hint(start)
		if h != hintVersion && (h != hintNumber || strings.ContainsAny(p.text[start:end], "-(")) {
			p.add(Phone, start, p.extension(end), 0.85)
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
	case h == hintPhone && len(g.all) >= 7, (h == hintPhone || h == hintNone) && len(g.groups) > 1 && len(g.all) >= 6 && p.contactLabel(g.end):
		p.add(Phone, start, p.extension(g.end), 0.65)
	case h == hintNone && (p.isZIP(start, g) || isPaddedQuad(g)):
	case h == hintNone && (p.hasExitPrefix(start, g) || hasTrunkZero(g) || p.hasAreaCode(start, g)):
		p.add(Phone, start, p.extension(g.end), 0.6)
	}
}

// northAmerican matches (212) 555-0123, 212-555-0123, 212.555.0123 and the same with a
// leading 1.
func (p *pass) northAmerican(i int) (end int, ok bool) {
	if p.at(i) == '1' && !p.is(i+1, digit) {
		if i++; !p.separates(i) {
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

// run reports whether at least n digits begin at i.
func (p *pass) run(i, n int) bool {
	for k := range n {
		if !p.is(i+k, digit) {
			return false
		}
	}
	return true
}

// hasExitPrefix reports whether g begins with the international prefix 00.
func (p *pass) hasExitPrefix(start int, g digits) bool {
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
func (p *pass) isZIP(start int, g digits) bool {
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

// isPaddedQuad reports whether g is an IPv4 address with leading zeros.
func isPaddedQuad(g digits) bool { return slices.Equal(g.groups, []int{3, 3, 3, 3}) }

// hasTrunkZero reports whether g looks like a number with a leading trunk zero:
// "07700 900 123", "089 12345678", "01 23 45 67 89".
func hasTrunkZero(g digits) bool {
	n := len(g.all)
	if n < 9 || n > 12 || g.all[0] != '0' || g.all[1] == '0' || len(g.groups) < 2 || len(g.groups) > 5 {
		return false
	}
	if g.groups[0] < 2 || g.groups[0] > 6 {
		return false
	}
	for _, size := range g.groups[1:] {
		if size < 2 {
			return false
		}
	}
	return true
}

// hasAreaCode reports whether g begins with an area code in parentheses.
func (p *pass) hasAreaCode(start int, g digits) bool {
	if p.at(start) != '(' || len(g.groups) < 2 || len(g.all) < 8 || len(g.all) > 12 {
		return false
	}
	size := g.groups[0]
	return size >= 2 && size <= 5 && p.at(start+1+size) == ')' && g.groups[1] >= 2
}

// isDate reports whether g is a date, in any order of year, month and day.
func isDate(g digits) bool {
	if len(g.groups) == 1 && len(g.all) == 8 { // 20261120
		return century(g.all) && g.all[4] < '2' && g.all[6] < '4'
	}
	if len(g.groups) < 3 {
		return false
	}
	a, b, c := g.groups[0], g.groups[1], g.groups[2]
	if a == 4 && b == 2 && c == 2 {
		return century(g.all)
	}
	return len(g.groups) == 3 && a <= 2 && b <= 2 && c == 4 && century(g.all[a+b:])
}

func century(year []byte) bool {
	return year[0] == '1' && year[1] == '9' || year[0] == '2' && year[1] == '0'
}
