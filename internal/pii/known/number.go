package known

// A number is a value of 7 to 19 digits that may have separators between them:
// it is found with others, or with none.
type number struct {
	digits uint64
	n      int
}

const (
	leastDigits = 7
	mostDigits  = 19
	widestGap   = 3 // bytes between two digits, as in "555 - 0123"
)

func (n number) with(b byte) number { return number{n.digits*10 + uint64(b-'0'), n.n + 1} }

// start returns the number's first digits.
func (n number) start() uint64 {
	d := n.digits
	for range n.n - leastDigits {
		d /= 10
	}
	return d
}

// numberOf returns the number that form is, if it is one.
func numberOf(form string) (n number, ok bool) {
	for i := range len(form) {
		switch class[form[i]] {
		case digit:
			if n = n.with(form[i]); n.n > mostDigits {
				return n, false
			}
		case gap:
		default:
			return n, false
		}
	}
	return n, n.n >= leastDigits
}

// number returns where the longest known number at i ends, and what it is of.
func (s *search) number(i int) (end int, v *value) {
	var n number
	for j := i; n.n < mostDigits; {
		n = n.with(s.text[j])
		j++
		if n.n == leastDigits && !s.x.starts.has(n.digits) {
			return 0, nil
		}
		if n.n >= leastDigits && s.ends(j) {
			if e := s.x.numbers[n]; e != nil {
				end, v = j, e.Value.(*value)
			}
		}
		from := j
		for j < len(s.text) && j-from < widestGap && class[s.text[j]] == gap {
			j++
		}
		if j == len(s.text) || class[s.text[j]] != digit {
			break
		}
	}
	return end, v
}
