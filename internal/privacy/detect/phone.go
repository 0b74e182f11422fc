package detect

import (
	"slices"
	"strings"
)

var phones = recognizer{
	Type: Phone,
	Anchors: []anchor{
		{Text: "+"},
		{Text: "("},
		{First: decimals, Least: 7},
		{First: decimals, Has: joint},
		{First: decimals, After: " -./()"},
	},
	Find: findPhone,
	Examples: []string{
		"Call «+44 20 7946 0958» or «+4930123456», «(212) 555-0123», «212-555-0123 ext. 7», «1-212-555-0123» and «212.555.0123x99»",
		"phone: «0301234567», mobile «07700 900123», «+1 415-555-0132»|«+49 30 1234567», {\"phone\": «5551234567», \"id\": 5551234568}",
		"«0131 496 0120» «66 7104-5658» «+12125550123»«+14155550132» «(212) 555-0123»«(415) 555-0132»",
		"2026-11-20, 15:18:39.123456, 1763651919, order 5551234567, ISBN 978-3-16-148410-0 and 10.0.19041.1",
		"+123 and +0 and 1+1=2, lat +1.2345678901, price $1,234,567.89 of 1000000000; Boston, MA  02111-1307",
	},
}

// findPhone examines a '+', a '(' or the first digit of a token.
func findPhone(p *passage, start, _ int) {
	if isShort(p, start) || !mayBegin(p, start) {
		return
	}
	i := start
	if !p.is(i, digit) {
		i++
	}
	if !p.is(i, digit) && p.at(i) != '(' {
		return
	}
	if p.at(start) == '(' && p.at(start+1) == '+' {
		return
	}
	var buf [maxDigits]byte
	var sizes [maxDigits]int
	g := gatherDigits(p, i, &buf, &sizes)
	switch {
	case len(g.all) < 5 || isDecimal(p, i, g):
		return
	case p.at(start) == '+':
		addInternational(p, start, i, g)
	default:
		addNational(p, start, g)
	}
	addPair(p, start, i, g)
}

// isShort reports whether fewer than seven digits without a following separator begin
// at i. This quickly rejects most numbers.
func isShort(p *passage, i int) bool {
	first := i
	for i-first < 7 && p.is(i, digit) {
		i++
	}
	return i > first && i-first < 7 && !separates(p, i)
}

// isDecimal reports whether the digits at i begin with a decimal number.
func isDecimal(p *passage, i int, g digits) bool {
	if len(g.groups) < 2 || p.at(i+g.groups[0]) != '.' {
		return false
	}
	return len(g.groups) == 2 || p.at(i+g.groups[0]+1+g.groups[1]) != '.'
}

// mayBegin reports whether a number may begin at i: the text before does not
// continue it.
func mayBegin(p *passage, i int) bool {
	if p.at(i) == '+' {
		return !p.continues(i, alnum)
	}
	switch b := p.at(i - 1); b {
	case '+', '_', '$':
		return false
	case '(':
		return p.at(i) != '(' && !p.is(i-2, alnum)
	case '-', '.', '/', ')':
		return !p.is(i-2, alnum)
	}
	return !p.continues(i, alnum)
}

// addInternational examines a number with a country code: "+44 20 7946 0958".
func addInternational(p *passage, start, first int, g digits) {
	if p.at(first) == '(' {
		return
	}
	end, n := g.end, len(g.all)
	code := country(g.all)
	if code == 0 {
		return
	}
	plan := countries[string(g.all[:code])]
	national := n - code
	if g.all[code] == '0' && strings.Contains(p.text[start:end], "(0)") {
		national--
	}
	if national > plan.most {
		end, national = truncateNumber(p, first, g, code+plan.least, code+plan.most)
	}
	if national < plan.least || p.is(end, letter) && p.at(end) != 'x' {
		return
	}
	p.add(start, extensionEnd(p, end), 0.95)
}

// truncateNumber returns the end of the longest sequence of whole groups of g with
// least to most digits. The rest is another number.
func truncateNumber(p *passage, first int, g digits, least, most int) (end, national int) {
	total := 0
	for _, size := range g.groups {
		if total+size > most {
			break
		}
		total += size
	}
	if total < least {
		return first, 0
	}
	seen, i := 0, first
	for ; seen < total; i++ {
		if p.is(i, digit) {
			seen++
		}
	}
	return i, total
}

const (
	minPhone = 7  // digits of a number that follows another
	maxPhone = 12 // the same, without a country code
	maxChain = 4  // numbers in a row, without anything between
)

// addPair adds two phone numbers with nothing but blanks between, or nothing, where the digits g
// at i are too many for one. One of them has the form of a phone number, or a word before
// announces one.
func addPair(p *passage, start, i int, g digits) {
	addAdjacent(p, start, g.end)
	if len(g.all) < 2*minPhone {
		return
	}
	if p.is(g.end, digit) { // the last group is incomplete
		last := len(g.groups) - 1
		g.all, g.groups = g.all[:len(g.all)-g.groups[last]], g.groups[:last]
		g.end = digitsEnd(p, i, len(g.all))
	}
	n := 0
	for k := range len(g.groups) - 1 {
		n += g.groups[k]
		end := digitsEnd(p, i, n)
		next := end
		for p.at(next) == ' ' {
			next++
		}
		if next == end || !p.is(next, digit) && p.at(next) != '(' {
			continue
		}
		a, b := digits{end, g.all[:n], g.groups[:k+1]}, digits{g.end, g.all[n:], g.groups[k+1:]}
		switch {
		case isDate(b) && hasTrunkZero(a) && p.hint(start) == hintNone:
			p.add(start, end, 0.6)
			return
		case arePhones(p, start, a, next, b):
			p.add(start, end, 0.7)
			p.add(next, g.end, 0.7)
			return
		}
	}
}

// digitsEnd returns the end of n digits and their separators at i.
func digitsEnd(p *passage, i, n int) int {
	for ; n > 0; i++ {
		if p.is(i, digit) {
			n--
		}
	}
	return i
}

// addAdjacent adds numbers that follow without a blank: "+12125550123+14155550132",
// "212-555-0123415-555-0132" and "(212) 555-0123(415) 555-0132".
func addAdjacent(p *passage, start, end int) {
	for range maxChain {
		var buf [maxDigits]byte
		var sizes [maxDigits]int
		switch after, ok := northAmerican(p, start); {
		case p.at(start) == '+' && p.at(end) == '+' && p.is(end+1, digit):
			g := gatherDigits(p, end+1, &buf, &sizes)
			if len(g.all) < minPhone {
				return
			}
			addInternational(p, end, end+1, g)
			start, end = end, g.end
		case ok && p.at(after) == '(':
			if end, ok = northAmerican(p, after); ok {
				p.add(after, end, 0.85)
			}
			start = after
		case !ok && p.run(start, 3) && p.text[start] >= '2' && p.at(start+3) == p.at(start+7) && p.run(start+4, 3) && p.run(start+8, 4):
			if after, ok = northAmerican(p, start+12); ok {
				p.add(start, start+12, 0.7)
				p.add(start+12, after, 0.7)
			}
			return
		default:
			return
		}
	}
}

// arePhones reports whether a, at start, and b, at next, are two phone numbers.
func arePhones(p *passage, start int, a digits, next int, b digits) bool {
	if len(b.all) < minPhone || len(b.all) > maxPhone || isDate(b) || slices.Min(b.groups) < 2 ||
		p.is(b.end, alnum) || (p.at(b.end) == ':' || p.at(b.end) == '.') && p.is(b.end+1, digit) {
		return false
	}
	if p.at(start) == '+' {
		code := country(a.all)
		plan := countries[string(a.all[:code])]
		return code > 0 && len(a.all)-code >= plan.least && len(a.all)-code <= plan.most && len(b.groups) > 1
	}
	if len(a.all) < minPhone || len(a.all) > maxPhone || isDate(a) {
		return false
	}
	h := p.hint(start)
	if h == hintPhone {
		return true
	}
	end, isNorthAmerican := northAmerican(p, start)
	return h == hintNone && len(a.groups) > 1 && len(b.groups) > 1 &&
		(hasTrunkZero(a) || hasTrunkZero(b) || hasAreaCode(p, start, a) || hasAreaCode(p, next, b) || isNorthAmerican && end == a.end)
}
