package encoded

import (
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

const no = 0xFF

// six is what a character of base64 stands for, in either of the alphabets.
var six = func() (v [256]byte) {
	for b := range v {
		v[b] = no
	}
	for i, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		v[b] = byte(i)
	}
	v['-'], v['_'] = 62, 63
	return v
}()

// four is what a hexadecimal digit stands for.
var four = func() (v [256]byte) {
	for b := range v {
		v[b] = no
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
	leastRun  = (shortest*8 + 5) / 6 // characters of base64 that a value has
	leastHex  = shortest * 2
	leastHash = 20 // hexadecimal digits that are no base64
	leastLine = 48 // characters in front of a line break that belongs to base64
)

// runs looks into what can be base64 or hexadecimal digits.
func (f Finder) runs(text string) []detect.Finding {
	r := reader{text: text, sure: sheet{Finder: f, source: text}, loose: sheet{Finder: f, source: text, loose: true}}
	for i := 0; i < len(text); {
		if six[text[i]] == no {
			i++
			continue
		}
		start := i
		for i < len(text) && six[text[i]] != no {
			i++
		}
		if i-start >= leastRun {
			i = r.run(start, i)
		}
	}
	return append(r.sure.done(), r.loose.done()...)
}

// reader decodes runs. What is all text goes onto one sheet, text between other
// bytes onto another.
type reader struct {
	text        string
	sure, loose sheet
	chars       string // of the run, without line breaks
	breaks      []int  // in front of which of chars they were
	widths      []int  // and how wide they were, with those before
	start       int
	bytes       []byte
}

// run looks at text[start:end] and, if its line is broken, at the lines that
// follow; it returns where it stopped.
func (r *reader) run(start, end int) int {
	r.start, r.breaks, r.widths = start, r.breaks[:0], r.widths[:0]
	r.chars = r.text[start:end]
	var lines []byte
	wide := 0
	for line := end - start; line >= leastLine && line%4 == 0; {
		next := end + lineBreak(r.text[end:])
		to := next
		for to < len(r.text) && six[r.text[to]] != no {
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

// hash reports whether the run is so many hexadecimal digits, also in groups,
// that it is no base64: of the characters of a text in base64 a quarter are
// others.
func (r *reader) hash() bool {
	for _, c := range []byte(r.chars) {
		if four[c] == no && c != '-' {
			return false
		}
	}
	return len(r.chars) >= leastHash
}

// lineBreak returns the size of the line break that text begins with, which may
// be written as an escape.
func lineBreak(text string) int {
	for _, b := range []string{"\r\n", "\n", `\r\n`, `\n`} {
		if len(text) > len(b) && text[:len(b)] == b {
			return len(b)
		}
	}
	return 0
}

// at returns where the character k of the run stands in the text.
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
	if len(r.chars)-shift < leastRun {
		return
	}
	out := r.bytes[:0]
	c := r.chars[shift:]
	for len(c) >= 4 {
		v := uint32(six[c[0]])<<18 | uint32(six[c[1]])<<12 | uint32(six[c[2]])<<6 | uint32(six[c[3]])
		out = append(out, byte(v>>16), byte(v>>8), byte(v))
		c = c[4:]
	}
	if len(c) >= 2 {
		out = append(out, six[c[0]]<<2|six[c[1]]>>4)
	}
	if len(c) == 3 {
		out = append(out, six[c[1]]<<4|six[c[2]]>>2)
	}
	r.bytes = out
	r.stretches(func(i int) place {
		first := shift + i/3*4
		last := first + 3
		if last < len(r.chars) {
			return place{r.at(first), r.at(last) + 1}
		}
		return place{r.at(first), r.at(len(r.chars)-1) + 1 + pad}
	})
}

// hex decodes what of the run is hexadecimal digits.
func (r *reader) hex() {
	for i := 0; i < len(r.chars); {
		start := i
		for i < len(r.chars) && four[r.chars[i]] != no {
			i++
		}
		if i-start >= leastHex {
			r.pairs(start, i)
			r.pairs(start+1, i)
		}
		i++
	}
}

func (r *reader) pairs(start, end int) {
	r.bytes = r.bytes[:0]
	for i := start; i+1 < end; i += 2 {
		r.bytes = append(r.bytes, four[r.chars[i]]<<4|four[r.chars[i+1]])
	}
	r.stretches(func(i int) place { return place{r.at(start + 2*i), r.at(start+2*i+1) + 1} })
}

// stretches writes what is text of what was decoded. Of bytes that are none four
// in ten look like it, so that nothing is decided before five in a row do, or two
// that begin a longer character.
func (r *reader) stretches(from func(i int) place) {
	b, last := r.bytes, 0
	n, lead := 0, uint8(0)
	for i := 0; i < len(b); i++ {
		is := class[b[i]]
		n = (n + 1) & -int(is&ascii)
		if pair := lead & (is << 1) & leads; n < shortest && pair == 0 {
			lead = is
			continue
		}
		start := i
		for start > last && class[b[start-1]]&(ascii|lead&leads) != 0 {
			start--
			lead = 0
		}
		end := r.stretch(start)
		if end-start >= shortest {
			r.write(start, end, from)
		}
		last, i, n, lead = end, max(i, end), 0, 0
	}
}

// stretch returns where text that begins at i ends.
func (r *reader) stretch(i int) int {
	for i < len(r.bytes) {
		n := textual(r.bytes[i:])
		if n == 0 {
			break
		}
		i += n
	}
	return i
}

func (r *reader) write(start, end int, from func(i int) place) {
	s := &r.loose
	if end-start >= mostlyText || end-start == len(r.bytes) {
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

// What a decoded byte can be of text.
const (
	ascii = 1 << iota
	follows
	leads // a character of several bytes
)

var class = func() (c [256]uint8) {
	for b := range c {
		switch {
		case b >= ' ' && b < 0x7F || b == '\t' || b == '\n' || b == '\r':
			c[b] = ascii
		case b >= 0x80 && b < 0xC0:
			c[b] = follows
		case b >= 0xC2 && b < 0xF5:
			c[b] = leads
		}
	}
	return c
}()

// textual returns the size of the character of text that b begins with, or 0.
func textual(b []byte) int {
	if class[b[0]] == ascii {
		return 1
	}
	if class[b[0]] != leads || len(b) < 2 || class[b[1]] != follows {
		return 0
	}
	if r, size := utf8.DecodeRune(b); r != utf8.RuneError {
		return size
	}
	return 0
}
