package redact

import (
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// passage is one text on its way over a border. What is found in it is collected
// first, so that all of its tokens are made at once.
type pass struct {
	find         func(key, text string) []detect.Finding
	adjustKey    func(key, text string, start, end int) string                      // under which key to look at a string that is read before; nil leaves the key
	disclosed    func(context.Context, []vault.Token) (map[vault.Token]bool, error) // which tokens may stand; nil means none
	createTokens func(context.Context, []vault.Value) ([]vault.Token, error)        // nil leaves values where they are
	findSpread   func(pieces []string) []encoded.Spread                             // values that go over several strings; nil looks for none
	learn        func([]vault.Value) bool                                           // has values be known, and reports whether some were not; nil leaves them
	keepForeign  bool                                                               // what only looks like a token is left as it is
	local        *LocalTokens                                                       // its tokens stand for their values

	views  []*textView
	found  []found
	values []vault.Value
	index  map[vault.Value]int // of each in values
	tokens []vault.Token
}

// sight is a document, or one in a string of another, and what is seen in it.
type textView struct {
	doc       *document
	tokens    []vault.TokenSpan // what looks like a token
	literals  []literal         // of JSON: the strings and numbers that are no documents of their own
	nested    []literal         // and those that are
	covered   byteSet           // by tokens that stand, and by what is replaced
	nestedDoc bool              // it stands in a string of another document
}

// found is a value: one part of a document, or several that make it up together.
type found struct {
	typ   detect.Type // "" for a token of this execution alone
	parts []part
}

type part struct {
	view *textView
	span
}

type span struct{ start, end int }

// pass takes a text over the border. Of JSON the answer is JSON too.
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

// news has the values that were found be known. If there are new ones, all was
// found for nothing: they may stand elsewhere in the same text, where only who
// knows them finds them.
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

// part is pass for a part of a text. What begins before it is left out, and what
// begins in it is whole.
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

// look finds what is in a text and in the texts that it holds.
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

// lookInto looks at the strings and numbers of JSON: at those without escapes all
// at once, as they stand.
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

// visible is the document's text without the strings that are documents of their
// own, and without the types in tokens: [PHONE_…] before a number does not say what
// that is.
func (s *textView) visible() string {
	if len(s.nested) == 0 && len(s.tokens) == 0 {
		return s.doc.src
	}
	b := []byte(s.doc.src)
	for _, l := range s.nested {
		clear(b[l.start+1 : l.end-1]) // no value has a zero byte, and no disguise
	}
	for _, at := range s.tokens {
		if i := strings.LastIndexByte(s.doc.src[at.Start:at.End], '_'); i > 0 {
			clear(b[at.Start+1 : at.Start+i])
		}
	}
	return string(b)
}

// apart reports whether a string of JSON has to be read before it is looked at.
func needsDecoding(lit string) bool {
	if strings.IndexByte(lit, '\\') >= 0 {
		return true
	}
	return (lit[1] == '{' || lit[1] == '[') && isJSON(lit[1:len(lit)-1])
}

// at returns the first of literals that ends behind a place.
func literalAt(lits []literal, place int) int {
	i, _ := slices.BinarySearchFunc(lits, place, func(l literal, place int) int {
		if l.end <= place {
			return -1
		}
		return 1
	})
	return i
}

// clip returns the parts of a place that lie in literals, without their quotes;
// numbers are taken whole. The keys that our answers are built of are left alone.
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

// ours reports whether a key is one that our answers are built of: of small letters,
// and not in the result of code.
func (s *textView) isAnswerKey(key literal) bool {
	word := s.doc.src[key.start+1 : key.end-1]
	return !s.nestedDoc && (key.arg != "result" || word == "result") && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") == ""
}
