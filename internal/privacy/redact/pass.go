package redact

import (
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// pass processes one text. It finds all values first, so that all tokens are created
// in one transaction.
type pass struct {
	find         func(key, text string) []detect.Finding
	adjustKey    func(key, text string, start, end int) string                      // returns the key to scan an encoded string with; nil keeps the key
	disclosed    func(context.Context, []vault.Token) (map[vault.Token]bool, error) // which tokens may stay; nil: none
	createTokens func(context.Context, []vault.Value) ([]vault.Token, error)        // nil leaves values in place
	findSpread   func(pieces []string) []encoded.Spread                             // finds values that are split over several strings; nil finds none
	learn        func([]vault.Value) bool                                           // indexes values and reports whether any was new; nil indexes none
	keepForeign  bool                                                               // text with the syntax of a token is not marked as foreign
	local        *LocalTokens                                                       // tokens of the interpreter, which are replaced as their values are

	views  []*textView
	found  []found
	values []vault.Value
	index  map[vault.Value]int // of each value in values
	tokens []vault.Token
}

// textView is a document, or the decoded text of a JSON string, and what was found in
// it.
type textView struct {
	doc       *document
	tokens    []vault.TokenSpan // text with the syntax of a token
	literals  []literal         // of JSON: strings and numbers that are not decoded
	nested    []literal         // of JSON: strings that are decoded and have a view of their own
	covered   byteSet           // bytes of tokens that stay and of values that are replaced
	nestedDoc bool              // it is the decoded text of a string in another document
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

// run returns the text with its values replaced. JSON stays JSON.
func (p *pass) run(ctx context.Context, key, text string) (string, error) {
	s := p.scan(key, text, 0)
	p.mergeOverlaps()
	if p.learnFound() {
		s = p.scan(key, text, 0)
		p.mergeOverlaps()
	}
	if err := p.planEdits(ctx); err != nil {
		return "", err
	}
	return s.doc.String(), nil
}

// learnFound indexes the values found. If any was new it discards the findings and
// returns true: new values may occur elsewhere in the same text, where only the index
// finds them, so the caller scans again.
func (p *pass) learnFound() bool {
	if p.learn == nil || len(p.found) == 0 {
		return false
	}
	var values []vault.Value
	for _, f := range p.found {
		if f.typ != "" {
			values = append(values, p.value(f))
		}
	}
	if !p.learn(values) {
		return false
	}
	p.views, p.found = nil, nil
	return true
}

// runPage is run for a part of a text. Values that begin before the part are omitted;
// values that begin in it are complete.
func (p *pass) runPage(ctx context.Context, page Page) (string, error) {
	s := p.scanPage(page)
	p.mergeOverlaps()
	if p.learnFound() {
		s = p.scanPage(page)
		p.mergeOverlaps()
	}
	if err := p.planEdits(ctx); err != nil {
		return "", err
	}
	return s.doc.part(page.Start, page.End), nil
}

func (p *pass) scanPage(page Page) *textView {
	s := p.addView(page.Text)
	for _, f := range p.find("", s.visible()) {
		if f.Start < page.End && f.End > page.Start {
			p.found = append(p.found, found{f.Type, []part{{s, span{f.Start, f.End}}}})
		}
	}
	return s
}

func (p *pass) addView(text string) *textView {
	s := &textView{doc: &document{src: text}, tokens: vault.FindTokens(text)}
	p.views = append(p.views, s)
	return s
}

// scan finds the values in a text and in the strings of JSON in it.
func (p *pass) scan(key, text string, depth int) *textView {
	s := p.addView(text)
	s.nestedDoc = depth > 0
	if depth <= maxDepth && isJSON(text) {
		p.scanJSON(s, depth)
		return s
	}
	for _, f := range p.find(key, s.visible()) {
		p.found = append(p.found, found{f.Type, []part{{s, span{f.Start, f.End}}}})
	}
	return s
}

// scanJSON scans the strings and numbers of JSON: those without escapes in a single
// scan of the source.
func (p *pass) scanJSON(s *textView, depth int) {
	src := s.doc.src
	var row row
	literals(src, func(l literal) {
		if l.number || !needsDecoding(src[l.start:l.end]) {
			s.literals = append(s.literals, l)
			row.add(p, l, s, l.start+1, l.end-1)
			return
		}
		s.nested = append(s.nested, l)
		key := l.key
		if p.adjustKey != nil && key != "" {
			key = p.adjustKey(key, src, l.start+1, l.end-1)
		}
		inner := p.scan(key, unquote(src[l.start:l.end]), depth+1)
		row.add(p, l, inner, 0, len(inner.doc.src))
		s.doc.replace(l.start, l.end, func() string {
			if len(inner.doc.edits) == 0 {
				return src[l.start:l.end]
			}
			return quote(inner.doc.String())
		})
	})
	row.flush(p)
	for _, f := range p.find("", s.visible()) {
		if parts := s.clip(span{f.Start, f.End}); len(parts) > 0 {
			p.found = append(p.found, found{f.Type, parts})
		}
	}
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

// needsDecoding reports whether a JSON string must be decoded before it is scanned.
func needsDecoding(lit string) bool {
	if strings.IndexByte(lit, '\\') >= 0 {
		return true
	}
	return (lit[1] == '{' || lit[1] == '[') && isJSON(lit[1:len(lit)-1])
}

// literalAt returns the index of the first literal that ends after a position.
func literalAt(lits []literal, place int) int {
	i, _ := slices.BinarySearchFunc(lits, place, func(l literal, place int) int {
		if l.end <= place {
			return -1
		}
		return 1
	})
	return i
}

// clip returns the parts of a span that lie in literals, without their quotes; numbers
// are taken whole. It skips the keys of our own answers.
func (s *textView) clip(in span) (parts []part) {
	for i := literalAt(s.literals, in.start); i < len(s.literals) && s.literals[i].start < in.end; i++ {
		l := s.literals[i]
		of := span{l.start, l.end}
		if !l.number {
			of = span{max(in.start, l.start+1), min(in.end, l.end-1)}
		}
		if of.start < of.end && !(l.isKey && s.isAnswerKey(l)) {
			parts = append(parts, part{s, of})
		}
	}
	return parts
}

// isAnswerKey reports whether a key is one that our own answers use: lower case, and
// not in the result of code.
func (s *textView) isAnswerKey(key literal) bool {
	word := s.doc.src[key.start+1 : key.end-1]
	return !s.nestedDoc && (key.arg != "result" || word == "result") && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") == ""
}
