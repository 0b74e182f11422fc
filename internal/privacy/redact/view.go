package redact

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// textView is a document or the decoded text of a JSON string, with its findings.
type textView struct {
	number    int // of its redaction, in the order of the scan
	doc       *document
	tokens    []vault.TokenSpan // text with the syntax of a token
	literals  []place           // of JSON: strings and numbers that are not decoded
	nested    []place           // of JSON: strings that are decoded and have a view of their own
	covered   byteSet           // bytes of tokens that stay and of values that are replaced
	hasValues bool              // found has values in it
	nestedDoc bool              // it is the decoded text of a string in another document, or all of it is data
	outer     *textView         // document that contains it as a string; nil: none
	at        int               // where that string begins
}

// found is a value: one part of a document, or several that make it up.
type found struct {
	typ   detect.Type // "" for an interpreter-local token
	parts []part
}

type part struct {
	view *textView
	span
}

type span struct{ start, end int }

// byteSet marks bytes of a text, with a bit for each.
type byteSet []uint64

func (m *byteSet) mark(src string, s span) {
	if *m == nil {
		*m = make(byteSet, len(src)/64+1)
	}
	for i := s.start; i < s.end; i++ {
		(*m)[i/64] |= 1 << (i % 64)
	}
}

func (m byteSet) has(i int) bool { return m != nil && m[i/64]&(1<<(i%64)) != 0 }

func (m byteSet) overlaps(s span) bool {
	for i := s.start; i < s.end; i++ {
		if m.has(i) {
			return true
		}
	}
	return false
}

// visible returns the source with two things blanked: strings that have a view of
// their own, and the types in tokens, since [PHONE_…] before a number must not count
// as evidence that it is a phone number.
func (s *textView) visible() string {
	if len(s.nested) == 0 && len(s.tokens) == 0 {
		return s.doc.src
	}
	b := []byte(s.doc.src)
	for _, l := range s.nested {
		clear(b[l.start+1 : l.end-1]) // no value contains a zero byte, encoded or not
	}
	for _, at := range s.tokens {
		if i := strings.LastIndexByte(s.doc.src[at.Start:at.End], '_'); i > 0 {
			clear(b[at.Start+1 : at.Start+i])
		}
	}
	return string(b)
}

// clip returns the parts of a span that lie in literals, without their quotes; numbers
// are taken whole. It skips the keys of our own answers.
func (s *textView) clip(in span) (parts []part) {
	for i := literalAt(s.literals, in.start); i < len(s.literals) && int(s.literals[i].start) < in.end; i++ {
		l := s.literals[i]
		of := l.span()
		if !l.number {
			of = span{max(in.start, of.start+1), min(in.end, of.end-1)}
		}
		if of.start < of.end && !(l.isKey && s.isAnswerKey(l)) {
			parts = append(parts, part{s, of})
		}
	}
	return parts
}

// isAnswerKey reports whether a key is one that our own answers use: lower case, and
// not in the result of code.
func (s *textView) isAnswerKey(key place) bool {
	word := s.doc.src[key.start+1 : key.end-1]
	return !s.nestedDoc && (!key.inResult || word == "result") && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// isNumber reports whether a JSON number begins at a position.
func (s *textView) isNumber(place int) bool {
	i := literalAt(s.literals, place)
	return i < len(s.literals) && s.literals[i].number && int(s.literals[i].start) == place
}

func (f found) size() (n int) {
	for _, at := range f.parts {
		n += at.end - at.start
	}
	return n
}

// uncovered returns the parts of a value that are not covered yet, without separators
// at their ends.
func (f found) uncovered() (rest []found) {
	for _, at := range f.parts {
		src := at.view.doc.src
		for i := at.start; i < at.end; i++ {
			start := i
			for i < at.end && !at.view.covered.has(i) {
				i++
			}
			for start < i && !hasWord(src[start:start+1]) && src[start] < 0x80 {
				start++
			}
			end := i
			for start < end && !hasWord(src[end-1:end]) && src[end-1] < 0x80 {
				end--
			}
			if start < end {
				rest = append(rest, found{f.typ, []part{{at.view, span{start, end}}}})
			}
		}
	}
	return rest
}
