package detect

import "unicode/utf8"

const (
	block  = 32 << 10 // anchors are processed in blocks of this size
	behind = 256      // a recognizer examines at most this many bytes before its anchor
	ahead  = 20 << 10 // and this many after it; a private key is the longest value
)

// passage is a part of a text while it is scanned, and what the recognizers share.
type passage struct {
	text  string
	base  int // position of text in the whole
	keys  *keyTable
	typ   Type // of the recognizer that is tried
	found []Finding

	hintAt int // 1 + the position whose hint is hintIs
	hintIs hint
}

// add adds a candidate of the recognizer that is tried.
func (p *passage) add(start, end int, score float64) {
	p.found = append(p.found, Finding{Type: p.typ, Start: p.base + start, End: p.base + end, Score: score})
}

// at returns the byte at i, or 0 outside the text.
func (p *passage) at(i int) byte {
	if i < 0 || i >= len(p.text) {
		return 0
	}
	return p.text[i]
}

// is reports whether the byte at i is in one of the classes.
func (p *passage) is(i int, classes uint8) bool { return class[p.at(i)]&classes != 0 }

// run reports whether at least n digits begin at i.
func (p *passage) run(i, n int) bool {
	for k := range n {
		if !p.is(i+k, digit) {
			return false
		}
	}
	return true
}

// whole reports whether a rune begins at i, or the text ends there.
func (p *passage) whole(i int) bool { return i == len(p.text) || utf8.RuneStart(p.text[i]) }

// unescape returns where the token at start begins if the letter in front is
// the second half of a JSON escape, as in "\n555-0100".
func (p *passage) unescape(start int) int {
	if start > 0 && p.text[start-1] == '\\' {
		switch p.text[start] {
		case 'n', 'r', 't':
			return start + 1
		}
	}
	return start
}

// continues reports whether the bytes at i continue a token: the byte before i is in
// one of the classes and not part of an escape.
func (p *passage) continues(i int, classes uint8) bool {
	return p.is(i-1, classes) && p.unescape(i-1) != i
}

// tokenStart returns the start of the token that ends at i, at most most bytes before it.
func (p *passage) tokenStart(i, most int) int {
	first := i
	for i-first < most && p.is(first-1, tokens) {
		first--
	}
	return first
}

// tokenEnd returns the end of the token at i, at most most bytes after it.
func (p *passage) tokenEnd(i, most int) int {
	end := i
	for end-i < most && p.is(end, tokens) {
		end++
	}
	return end
}
