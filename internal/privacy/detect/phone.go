package detect

import (
	"slices"
	"strings"
)

// digits is a sequence of digit groups with separators.
type digits struct {
	end    int
	all    []byte // the digits alone
	groups []int  // number of digits in each group
}

const (
	maxDigits = 24
	maxSpread = 40 // bytes, including separators
)

// gather reads the digit groups at i, which are separated by one or two of " -./()".
func (p *pass) gather(i int, buf *[maxDigits]byte, groups *[maxDigits]int) digits {
	g := digits{end: i}
	n, k, first := 0, 0, i
	for n < maxDigits && i-first < maxSpread {
		size := 0
		for p.is(i, digit) && n < maxDigits {
			buf[n] = p.text[i]
			n, size, i = n+1, size+1, i+1
		}
		if size > 0 {
			groups[k], k, g.end = size, k+1, i
		}
		next := i
		for next-i < 3 && p.separates(next) {
			next++
		}
		if next == i || !p.is(next, digit) {
			break
		}
		i = next
	}
	g.all, g.groups = buf[:n], groups[:k]
	return g
}

func (p *pass) separates(i int) bool {
	switch p.at(i) {
	case ' ', '-', '.', '/', '(', ')':
		return true
	}
	return false
}

// phone examines a '+', a '(' or the first digit of a token.
func (p *pass) phone(start int) {
	if p.isShort(start) || !p.phoneStart(start) {
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
	g := p.gather(i, &buf, &sizes)
	switch {
	case len(g.all) < 5 || p.decimal(i, g):
		return
	case p.at(start) == '+':
		p.international(start, i, g)
	default:
		p.national(start, g)
	}
	addPair(p, start, i, g)
}

// isShort reports whether fewer than seven digits without a following separator begin
// at i. This quickly rejects most numbers.
func (p *pass) isShort(i int) bool {
	first := i
	for i-first < 7 && p.is(i, digit) {
		i++
	}
	return i > first && i-first < 7 && !p.separates(i)
}

// decimal reports whether the digits at i begin with a decimal number.
func (p *pass) decimal(i int, g digits) bool {
	if len(g.groups) < 2 || p.at(i+g.groups[0]) != '.' {
		return false
	}
	return len(g.groups) == 2 || p.at(i+g.groups[0]+1+g.groups[1]) != '.'
}

// phoneStart reports whether a number may begin at i: the text before does not
// continue it.
func (p *pass) phoneStart(i int) bool {
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

// international examines a number with a country code: "+44 20 7946 0958".
func (p *pass) international(start, first int, g digits) {
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
		end, national = p.truncateNumber(first, g, code+plan.least, code+plan.most)
	}
	if national < plan.least || p.is(end, letter) && p.at(end) != 'x' {
		return
	}
	p.add(Phone, start, p.extension(end), 0.95)
}

// truncateNumber returns the end of the longest sequence of whole groups of g with
// least to most digits. The rest is another number.
func (p *pass) truncateNumber(first int, g digits, least, most int) (end, national int) {
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

// extension returns the end of "x123" or "ext. 12" at end, or end.
func (p *pass) extension(end int) int {
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

const (
	minPhone = 7  // digits of a number that follows another
	maxPhone = 12 // the same, without a country code
	maxChain = 4  // numbers in a row, without anything between
)

// addPair adds two phone numbers with nothing but blanks between, or nothing, where the digits g
// at i are too many for one. One of them has the form of a phone number, or a word before
// announces one.
func addPair(p *pass, start, i int, g digits) {
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
			p.add(Phone, start, end, 0.6)
			return
		case arePhones(p, start, a, next, b):
			p.add(Phone, start, end, 0.7)
			p.add(Phone, next, g.end, 0.7)
			return
		}
	}
}

// digitsEnd returns the end of n digits and their separators at i.
func digitsEnd(p *pass, i, n int) int {
	for ; n > 0; i++ {
		if p.is(i, digit) {
			n--
		}
	}
	return i
}

// addAdjacent adds numbers that follow without a blank: "+12125550123+14155550132",
// "212-555-0123415-555-0132" and "(212) 555-0123(415) 555-0132".
func addAdjacent(p *pass, start, end int) {
	for range maxChain {
		var buf [maxDigits]byte
		var sizes [maxDigits]int
		switch after, ok := p.northAmerican(start); {
		case p.at(start) == '+' && p.at(end) == '+' && p.is(end+1, digit):
			g := p.gather(end+1, &buf, &sizes)
			if len(g.all) < minPhone {
				return
			}
			p.international(end, end+1, g)
			start, end = end, g.end
		case ok && p.at(after) == '(':
			if end, ok = p.northAmerican(after); ok {
				p.add(Phone, after, end, 0.85)
			}
			start = after
		case !ok && p.run(start, 3) && p.text[start] >= '2' && p.at(start+3) == p.at(start+7) && p.run(start+4, 3) && p.run(start+8, 4):
			if after, ok = p.northAmerican(start + 12); ok {
				p.add(Phone, start, start+12, 0.7)
				p.add(Phone, start+12, after, 0.7)
			}
			return
		default:
			return
		}
	}
}

// arePhones reports whether a, at start, and b, at next, are two phone numbers.
func arePhones(p *pass, start int, a digits, next int, b digits) bool {
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
	end, isNorthAmerican := p.northAmerican(start)
	return h == hintNone && len(a.groups) > 1 && len(b.groups) > 1 &&
		(hasTrunkZero(a) || hasTrunkZero(b) || p.hasAreaCode(start, a) || p.hasAreaCode(next, b) || isNorthAmerican && end == a.end)
}
