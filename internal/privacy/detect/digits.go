package detect

import "slices"

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

// gatherDigits reads the digit groups at i, which are separated by one or two of " -./()".
func gatherDigits(p *passage, i int, buf *[maxDigits]byte, groups *[maxDigits]int) digits {
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
		for next-i < 3 && separates(p, next) {
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

func separates(p *passage, i int) bool {
	switch p.at(i) {
	case ' ', '-', '.', '/', '(', ')':
		return true
	}
	return false
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
