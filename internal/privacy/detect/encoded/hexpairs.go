package encoded

import "github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"

// separators are the bytes that may separate hexadecimal bytes: "62:6f:62",
// "0x62, 0x6f", "['62', '6f']".
var separators = func() (t [256]bool) {
	for _, b := range []byte(" -._,*/|\n\r\t'\":;\\") {
		t[b] = true
	}
	return t
}()

const maxSeparator = 6 // bytes, as in "', '0x"

// hexPairs decodes sequences of hexadecimal bytes with the same separator between all.
func (f Finder) hexPairs(text string) []detect.Finding {
	p := hexPairs{text: text, decoded: sheet{Finder: f, source: text}}
	for i := 2; i+3 < len(text); i++ {
		if separators[text[i]] && p.likely(i) {
			p.findSeparator(i)
		}
	}
	return p.decoded.done()
}

type hexPairs struct {
	text    string
	decoded sheet
	ends    [maxSeparator + 1]int // of the last sequence, by the size of its separator
}

// likely rejects most separators: a pair, another separator, or "0x" has to follow.
func (p *hexPairs) likely(i int) bool {
	next := p.text[i+1]
	return pairAt(p.text, i+1) || separators[next] || next == '0' || next == 'x'
}

// findSeparator tries the separators of all sizes that begin at i.
func (p *hexPairs) findSeparator(i int) {
	if !pairAt(p.text, i-2) {
		return
	}
	plain := true
	for size := 1; size <= maxSeparator && i+size < len(p.text); size++ {
		b := p.text[i+size-1]
		plain = plain && separators[b]
		if i >= p.ends[size] && pairAt(p.text, i+size) {
			p.ends[size] = p.sequence(i, size)
		}
		if !plain && b != '0' && b != 'x' {
			return
		}
	}
}

// sequence decodes the pairs around the separator text[i:i+size] and returns the end of
// the last; i if there are fewer than minValue.
func (p *hexPairs) sequence(i, size int) int {
	text, separator := p.text, p.text[i:i+size]
	n, end := 1, i
	for end+size < len(text) && text[end:end+size] == separator && pairAt(text, end+size) {
		n, end = n+1, end+size+2
	}
	if n < minValue {
		return i
	}
	p.decoded.gap()
	for at := i - 2; at < end; at += 2 + size {
		b := hexDigit[text[at]]<<4 | hexDigit[text[at+1]]
		if b == 0 && at > i && isWide(text, at-size, size+2) {
			continue
		}
		p.decoded.put(b, p.start(at), at+2)
	}
	p.decoded.gap()
	return end
}

// start returns the start of a pair, including "0x" or "\x" before it.
func (p *hexPairs) start(i int) int {
	if i >= 2 && p.text[i-1] == 'x' && (p.text[i-2] == '0' || p.text[i-2] == '\\') {
		return i - 2
	}
	return i
}

// pairAt reports whether text[i:i+2] is two hexadecimal digits.
func pairAt(text string, i int) bool {
	return i >= 0 && i+1 < len(text) && hexDigit[text[i]] != notDigit && hexDigit[text[i+1]] != notDigit
}
