package known

// number is a value of 7 to 19 digits, which may have separators. It is found with any
// separators or none, if one of its ends is a border.
type number struct {
	digits uint64
	n      int
}

const (
	minDigits        = 7
	minUnboundDigits = 11 // of the shortest number found within digits of a squeezed text
	maxDigits        = 19
	maxGap           = 3 // bytes between two digits, as in "555 - 0123"
)

func (n number) with(b byte) number { return number{n.digits*10 + uint64(b-'0'), n.n + 1} }

// start returns the first digits of the number.
func (n number) start() uint64 {
	d := n.digits
	for range n.n - minDigits {
		d /= 10
	}
	return d
}

// numberOf parses form as a number.
func numberOf(form string) (n number, ok bool) {
	for i := range len(form) {
		switch class[form[i]] {
		case digit:
			if n = n.with(form[i]); n.n > maxDigits {
				return n, false
			}
		case gap:
		default:
			return n, false
		}
	}
	return n, n.n >= minDigits
}
