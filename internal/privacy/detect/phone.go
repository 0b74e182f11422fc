package detect

import "strings"

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
