package encoded

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// wideRuns writes the text in UTF-16 and UTF-32 in the decoded bytes, which may begin anywhere.
func wideRuns(r *reader, from func(i int) span) {
	asciiRuns(r, from)
	unitRuns(r, from)
}

// asciiRuns writes the ASCII text in UTF-16 and UTF-32 in the decoded bytes: every second or
// fourth byte, with zeros between.
func asciiRuns(r *reader, from func(i int) span) {
	b := r.bytes
	for at := 0; ; {
		zero := bytes.IndexByte(b[at:], 0)
		if zero < 0 {
			return
		}
		i := at + zero - 1
		if at += zero + 1; i < 0 || class[b[i]] != ascii {
			continue
		}
		step := 2
		if bytes.HasPrefix(b[i+2:], zeros[:2]) {
			step = 4
		}
		start := i
		for i+step < len(b) && class[b[i+step]] == ascii && bytes.Equal(b[i+1:i+step], zeros[:step-1]) {
			i += step
		}
		i += step
		at = max(at, min(i, len(b)))
		s := &r.loose
		if (i-start)/step >= minTextRun {
			s = &r.sure
		}
		if (i-start)/step < minValue || s.empty() {
			continue
		}
		for k := start; k < i; k += step {
			s.put(b[k], from(k).start, from(min(k+step, len(b))-1).end)
		}
		s.gap()
	}
}

var zeros [3]byte

// Kinds of the units of UTF-16.
const (
	noText  = iota
	weak    // every second unit of random bytes
	strong  // a letter of a small alphabet
	isASCII // asciiRuns finds text of these only
)

// unitKind returns the kind of a unit.
func unitKind(u uint16) int {
	switch {
	case u < utf8.RuneSelf:
		if class[u] == ascii {
			return isASCII
		}
	case u >= 0xA0 && u < 0x800: // up to Syriac
		return strong
	case u >= 0x900 && u < 0x1100, u >= 0x1E00 && u < 0x2070, u >= 0x3000 && u < 0x3100, u >= 0x4E00 && u < 0xA000,
		u >= 0xAC00 && u < 0xE000, u >= 0xFF00 && u < 0xFFF0:
		return weak
	}
	return noText
}

const minUnits = 4 // of text without a mark or a letter of a small alphabet

// unitRuns writes the text in UTF-16 in the decoded bytes that is not only ASCII. It is searched at
// the beginning, after byte order marks, and around two units of small alphabets.
func unitRuns(r *reader, from func(i int) span) {
	b := r.bytes
	u := units{bytes: b}
	at := func(i, high int) { // i is that of a unit, high that of the high byte in it
		if start, end := u.around(i, high); start < end {
			writeUnits(r, start, end, high, from)
		}
	}
	if r.first && len(b) >= 2*minUnits {
		at(0, 0)
		at(0, 1)
		at(1, 0)
		at(1, 1)
	}
	for i := 0; i+2 < len(b); i++ {
		if b[i] >= 0xFE && b[i]^b[i+1] == 1 {
			at(i+2, int(b[i]&1))
		}
		if b[i] < 8 && b[i+2] < 8 {
			at(i, 0)
			at(i-1, 1)
		}
	}
}

// units are decoded bytes read as UTF-16.
type units struct {
	bytes []byte
	ends  [2][2]int // of the last text, by the position of the high byte, and of the unit
}

func (u *units) unit(i, high int) uint16 {
	return uint16(u.bytes[i+high])<<8 | uint16(u.bytes[i+1-high])
}

// around returns the range of the text around the unit at i, which is empty if it was returned
// before or is random. Half of the characters must be of small alphabets, unless a byte order mark
// is before them or all is text: two random bytes are an ideograph with a probability of a half.
func (u *units) around(i, high int) (start, end int) {
	if i < 0 || i < u.ends[high][i&1] {
		return 0, 0
	}
	var n [isASCII + 1]int
	start, end = i, i
	for ; end+1 < len(u.bytes); end += 2 {
		kind := unitKind(u.unit(end, high))
		if kind == noText {
			break
		}
		n[kind]++
	}
	for ; start >= 2; start -= 2 {
		kind := unitKind(u.unit(start-2, high))
		if kind == noText {
			break
		}
		n[kind]++
	}
	u.ends[high][i&1] = end
	sure := start >= 2 && u.unit(start-2, high) == '\ufeff' || start <= 2 && end+1 >= len(u.bytes)
	if n[weak]+n[strong] == 0 || !sure && n[weak] > n[strong]+n[isASCII] || 3*n[weak]+2*n[strong]+n[isASCII] < minValue {
		return 0, 0
	}
	return start, end
}

// writeUnits writes the units from start to end in UTF-8.
func writeUnits(r *reader, start, end, high int, from func(i int) span) {
	s := &r.loose
	if (end-start)/2 >= minTextRun {
		s = &r.sure
	}
	if s.empty() {
		return
	}
	u := units{bytes: r.bytes}
	for i := start; i < end; {
		c, size := rune(u.unit(i, high)), 2
		if utf16.IsSurrogate(c) && i+2 < end {
			c, size = utf16.DecodeRune(c, rune(u.unit(i+2, high))), 4
		}
		for _, one := range utf8.AppendRune(nil, c) {
			s.put(one, from(i).start, from(i+size-1).end)
		}
		i += size
	}
	s.gap()
}
