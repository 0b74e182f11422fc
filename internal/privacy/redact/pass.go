package redact

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// pass processes one text. It finds all values first, so that all tokens are created
// in one transaction.
type pass struct {
	search
	replacer

	views []*textView
	found []found
}

// search defines what a pass finds.
type search struct {
	find       func(key, text string) []detect.Finding
	adjustKey  func(key, text string, start, end int) string // returns the key to scan an encoded string with; nil keeps the key
	findSpread func(pieces []string) []encoded.Spread        // finds values that are split over several strings; nil finds none
	learn      func([]vault.Value) bool                      // indexes values and reports whether any was new; nil indexes none
}

// run returns the text with its values replaced. JSON stays JSON.
func (p *pass) run(ctx context.Context, key, text string) (string, error) {
	s, err := p.process(ctx, func() *textView { return p.scan(key, text, 0) })
	if err != nil {
		return "", err
	}
	return s.doc.String(), nil
}

// runPage is run for a part of a text. Values that begin before the part are omitted;
// values that begin in it are complete.
func (p *pass) runPage(ctx context.Context, page Page) (string, error) {
	s, err := p.process(ctx, func() *textView { return p.scanPage(page) })
	if err != nil {
		return "", err
	}
	return s.doc.between(page.Start, page.End), nil
}

// process returns the view of a text that scan finds the values of, with its edits.
func (p *pass) process(ctx context.Context, scan func() *textView) (*textView, error) {
	s := scan()
	p.found = mergeOverlaps(p.found, p.views)
	if p.learnFound() {
		s = scan()
		p.found = mergeOverlaps(p.found, p.views)
	}
	return s, p.planEdits(ctx, p.views, p.found)
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
	row := row{findSpread: p.findSpread}
	s.literals = make([]place, 0, len(src)/16) // about as many as rows of a database have
	literals(src, func(l literal) {
		if l.number || !needsDecoding(src[l.start:l.end]) {
			s.literals = append(s.literals, l.place())
			p.found = append(p.found, row.add(l, s, l.start+1, l.end-1)...)
			return
		}
		s.nested = append(s.nested, l.place())
		key := l.key
		if p.adjustKey != nil && key != "" {
			key = p.adjustKey(key, src, l.start+1, l.end-1)
		}
		inner := p.scan(key, unquote(src[l.start:l.end]), depth+1)
		p.found = append(p.found, row.add(l, inner, 0, len(inner.doc.src))...)
		s.doc.replace(l.start, l.end, func() string {
			if len(inner.doc.edits) == 0 {
				return src[l.start:l.end]
			}
			return quote(inner.doc.String())
		})
	})
	p.found = append(p.found, row.flush()...)
	for _, f := range p.find("", s.visible()) {
		if parts := s.clip(span{f.Start, f.End}); len(parts) > 0 {
			p.found = append(p.found, found{f.Type, parts})
		}
	}
}
