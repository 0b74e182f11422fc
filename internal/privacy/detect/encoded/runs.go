package encoded

import (
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

const notDigit = 0xFF

// base64Digit is the value of a base64 character, in either alphabet.
var base64Digit = func() (v [256]byte) {
	for b := range v {
		v[b] = notDigit
	}
	for i, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		v[b] = byte(i)
	}
	v['-'], v['_'] = 62, 63
	return v
}()

// hexDigit is the value of a hexadecimal digit.
var hexDigit = func() (v [256]byte) {
	for b := range v {
		v[b] = notDigit
	}
	for i, b := range []byte("0123456789abcdef") {
		v[b] = byte(i)
		if b >= 'a' {
			v[b&^0x20] = byte(i)
		}
	}
	return v
}()

const (
	minBase64 = (minValue*8 + 5) / 6 // base64 characters of the shortest value
	minHex    = minValue * 2
	minHash   = 20 // hexadecimal digits that are not treated as base64
	minLine   = 48 // base64 characters before a line break within base64
)

// runs decodes runs of base64 characters and of hexadecimal digits.
func (f Finder) runs(text string) []detect.Finding {
	r := reader{text: text, sure: sheet{Finder: f, source: text}, loose: sheet{Finder: f, source: text, loose: true}}
	for i := 0; i < len(text); {
		if base64Digit[text[i]] == notDigit {
			i++
			continue
		}
		start := i
		for i < len(text) && base64Digit[text[i]] != notDigit {
			i++
		}
		if i-start >= minBase64 {
			i = r.run(start, i)
		}
	}
	return append(r.sure.done(), r.loose.done()...)
}

// reader decodes runs. Text goes to one sheet, short text between other bytes to another,
// in which only known values are searched.
type reader struct {
	text        string
	sure, loose sheet
	chars       string // of the run, without line breaks
	breaks      []int  // indexes in chars before which line breaks were
	widths      []int  // total size of the line breaks up to each
	start       int
	bytes       []byte
	first       bool // bytes begin with the run
}

// run decodes text[start:end] and, if it fills a line, the lines that continue it. It returns
// where it stopped.
func (r *reader) run(start, end int) int {
	r.start, r.breaks, r.widths = start, r.breaks[:0], r.widths[:0]
	r.chars = r.text[start:end]
	var lines []byte
	wide := 0
	for line := end - start; line >= minLine && line%4 == 0; {
		next := end + lineBreak(r.text[end:])
		to := next
		for to < len(r.text) && base64Digit[r.text[to]] != notDigit {
			to++
		}
		if next == end || to == next {
			break
		}
		if wide += next - end; lines == nil {
			lines = []byte(r.chars)
		}
		r.breaks, r.widths = append(r.breaks, len(lines)), append(r.widths, wide)
		lines = append(lines, r.text[next:to]...)
		line, end = to-next, to
	}
	if lines != nil {
		r.chars = string(lines)
	}
	pad := 0
	for pad < 2 && end+pad < len(r.text) && r.text[end+pad] == '=' {
		pad++
	}
	if !r.hash() {
		for shift := range 4 {
			r.base64(shift, pad)
		}
	}
	r.hex()
	return end
}

// hash reports whether the run is hexadecimal digits, also in groups, of a length at which it
// cannot be base64: a quarter of the characters of text in base64 are others.
func (r *reader) hash() bool {
	for _, c := range []byte(r.chars) {
		if hexDigit[c] == notDigit && c != '-' {
			return false
		}
	}
	return len(r.chars) >= minHash
}

// lineBreak returns the size of the line break at the beginning of text, which may be an
// escape.
func lineBreak(text string) int {
	for _, b := range []string{"\r\n", "\n", `\r\n`, `\n`} {
		if len(text) > len(b) && text[:len(b)] == b {
			return len(b)
		}
	}
	return 0
}

// at returns the position in the text of character k of the run.
func (r *reader) at(k int) int {
	lo, hi := 0, len(r.breaks)
	for lo < hi {
		if m := (lo + hi) / 2; r.breaks[m] <= k {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == 0 {
		return r.start + k
	}
	return r.start + k + r.widths[lo-1]
}

// base64 decodes the run from its character shift on.
func (r *reader) base64(shift, pad int) {
	if len(r.chars)-shift < minBase64 {
		return
	}
	out := r.bytes[:0]
	c := r.chars[shift:]
	for len(c) >= 4 {
		v := uint32(base64Digit[c[0]])<<18 | uint32(base64Digit[c[1]])<<12 | uint32(base64Digit[c[2]])<<6 | uint32(base64Digit[c[3]])
		out = append(out, byte(v>>16), byte(v>>8), byte(v))
		c = c[4:]
	}
	if len(c) >= 2 {
		out = append(out, base64Digit[c[0]]<<2|base64Digit[c[1]]>>4)
	}
	if len(c) == 3 {
		out = append(out, base64Digit[c[1]]<<4|base64Digit[c[2]]>>2)
	}
	r.bytes, r.first = out, shift == 0
	r.textRuns(func(i int) span {
		first := shift + i/3*4
		last := first + 3
		if last < len(r.chars) {
			return span{r.at(first), r.at(last) + 1}
		}
		return span{r.at(first), r.at(len(r.chars)-1) + 1 + pad}
	})
}

// hex decodes the hexadecimal digits in the run.
func (r *reader) hex() {
	for i := 0; i < len(r.chars); {
		start := i
		for i < len(r.chars) && hexDigit[r.chars[i]] != notDigit {
			i++
		}
		if i-start >= minHex {
			r.pairs(start, i)
			r.pairs(start+1, i)
		}
		i++
	}
}

func (r *reader) pairs(start, end int) {
	r.bytes = r.bytes[:0]
	for i := start; i+1 < end; i += 2 {
		r.bytes = append(r.bytes, hexDigit[r.chars[i]]<<4|hexDigit[r.chars[i+1]])
	}
	r.first = start == 0
	r.textRuns(func(i int) span { return span{r.at(start + 2*i), r.at(start+2*i+1) + 1} })
}

// textRuns writes the text in the decoded bytes. Four in ten random bytes look like text, so
// a run begins only with five in a row, or with the first two of a longer character.
func (r *reader) textRuns(from func(i int) span) {
	b, last := r.bytes, 0
	wideRuns(r, from)
	n, lead := 0, uint8(0)
	for i := 0; i < len(b); i++ {
		is := class[b[i]]
		n = (n + 1) & -int(is&ascii)
		if pair := lead & (is << 1) & leads; n < minValue && pair == 0 {
			lead = is
			continue
		}
		start := i
		for start > last && class[b[start-1]]&(ascii|lead&leads) != 0 {
			start--
			lead = 0
		}
		end := r.textRunEnd(start)
		if end-start >= minValue {
			r.write(start, end, from)
		}
		last, i, n, lead = end, max(i, end), 0, 0
	}
}

// textRunEnd returns the end of the text that begins at i.
func (r *reader) textRunEnd(i int) int {
	for i < len(r.bytes) {
		n := textual(r.bytes[i:])
		if n == 0 {
			break
		}
		i += n
	}
	return i
}

func (r *reader) write(start, end int, from func(i int) span) {
	s := &r.loose
	if end-start >= minTextRun || end-start == len(r.bytes) {
		s = &r.sure
	}
	if s.empty() {
		return
	}
	for i := start; i < end; i++ {
		p := from(i)
		s.put(r.bytes[i], p.start, p.end)
	}
	s.gap()
}

// Classes of decoded bytes.
const (
	ascii = 1 << iota
	continuation
	leads // first byte of a multi-byte character
)

var class = func() (c [256]uint8) {
	for b := range c {
		switch {
		case b >= ' ' && b < 0x7F || b == '\t' || b == '\n' || b == '\r':
			c[b] = ascii
		case b >= 0x80 && b < 0xC0:
			c[b] = continuation
		case b >= 0xC2 && b < 0xF5:
			c[b] = leads
		}
	}
	return c
}()

// textual returns the size of the character at the beginning of b, or 0.
func textual(b []byte) int {
	if class[b[0]] == ascii {
		return 1
	}
	if class[b[0]] != leads || len(b) < 2 || class[b[1]] != continuation {
		return 0
	}
	if r, size := utf8.DecodeRune(b); r != utf8.RuneError {
		return size
	}
	return 0
}
