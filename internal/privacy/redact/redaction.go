package redact

import (
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// redaction processes one text. It finds all values first, so that all tokens are created
// in one transaction.
type redaction struct {
	search
	replacer
	turn func(ctx context.Context, n int) (done func(), err error) // waits until a text of n bytes may be processed

	views   []*textView
	added   int // views so far, also those that were dropped
	found   []found
	refused error // result of check
}

// search defines what a redaction finds.
type search struct {
	find       func(key, text string) []detect.Finding
	adjustKey  func(key, text string, start, end int) string // returns the key to scan an encoded string with; nil keeps the key
	findSpread func(pieces []string) []encoded.Spread        // finds values that are split over several strings; nil finds none
	learn      func([]vault.Value) bool                      // indexes values and reports whether any was new; nil indexes none
	// refuses a text by the number of its values, at most maxCounted; nil refuses none
	check   func(values int) error
	foreign bool // the text is no answer of ours: its keys are data
}

// run returns the text with its values replaced. JSON stays JSON.
func (p *redaction) run(ctx context.Context, key, text string) (string, error) {
	done, err := p.turn(ctx, len(text))
	if err != nil {
		return "", err
	}
	defer done()
	s, err := p.process(ctx, func() *textView { return p.scan(key, text, 0) })
	if err != nil {
		return "", err
	}
	return s.doc.String(), nil
}

// runPage is run for a part of a text. Values that begin before the part are omitted;
// values that begin in it are complete.
func (p *redaction) runPage(ctx context.Context, page Page) (string, error) {
	done, err := p.turn(ctx, len(page.Text))
	if err != nil {
		return "", err
	}
	defer done()
	s, err := p.process(ctx, func() *textView { return p.scanPage(page) })
	if err != nil {
		return "", err
	}
	return s.doc.between(page.Start, page.End), nil
}

// process returns the view of a text that scan finds the values of, with its edits.
func (p *redaction) process(ctx context.Context, scan func() *textView) (*textView, error) {
	s := scan()
	p.found = mergeOverlaps(p.found)
	if p.refused != nil {
		return nil, p.refused
	}
	if p.learnFound() {
		s = scan()
		p.found = mergeOverlaps(p.found)
	}
	err := p.planEdits(ctx, p.views, p.found)
	p.found = nil // a large text has hundreds of thousands: free them before the result is made
	return s, err
}

// maxCounted limits the values that are counted before any is stored.
const maxCounted = 64 << 10

// findIn returns the values in a text, none if check refuses it. It counts them here because they
// take less memory than in found.
func (p *redaction) findIn(key, text string) []detect.Finding {
	if p.refused != nil {
		return nil
	}
	all := p.find(key, text)
	if p.check == nil || len(all) == 0 {
		return all
	}
	seen := map[string]bool{}
	for _, f := range all {
		if seen[text[f.Start:f.End]] = true; len(seen) == maxCounted {
			break
		}
	}
	if err := p.check(len(seen)); err != nil {
		p.refused = err
		return nil
	}
	return all
}

// add adds findings in a view.
func (p *redaction) add(s *textView, all []detect.Finding) {
	parts := make([]part, len(all))
	p.found = slices.Grow(p.found, len(all))
	for i, f := range all {
		parts[i] = part{s, span{f.Start, f.End}}
		p.found = append(p.found, found{f.Type, parts[i : i+1 : i+1]})
	}
	s.hasValues = s.hasValues || len(all) > 0
}

// maxLearned is the number of values that are indexed at a time.
const maxLearned = 4096

// learnFound indexes the values found. If any was new it discards the findings and
// returns true: new values may occur elsewhere in the same text, where only the index
// finds them, so the caller scans again.
func (p *redaction) learnFound() bool {
	if p.learn == nil || len(p.found) == 0 {
		return false
	}
	learned := false
	var values []vault.Value
	seen := make(map[vault.Value]bool)
	for i, f := range p.found {
		if v := p.value(f); f.typ != "" && !seen[v] {
			values, seen[v] = append(values, v), true
		}
		if len(values) == maxLearned || i == len(p.found)-1 {
			learned = p.learn(values) || learned
			values = values[:0]
			clear(seen)
		}
	}
	if !learned {
		return false
	}
	p.views, p.found = nil, nil
	return true
}

func (p *redaction) scanPage(page Page) *textView {
	s := p.addView(page.Text)
	for _, f := range p.find("", s.visible()) {
		if f.Start < page.End && f.End > page.Start {
			p.found = append(p.found, found{f.Type, []part{{s, span{f.Start, f.End}}}})
		}
	}
	return s
}

func (p *redaction) addView(text string) *textView {
	p.added++
	s := &textView{number: p.added, doc: &document{src: text}, tokens: vault.FindTokens(text)}
	p.views = append(p.views, s)
	return s
}

// scan finds the values in a text and in the strings of JSON in it.
func (p *redaction) scan(key, text string, depth int) *textView {
	s := p.addView(text)
	s.nestedDoc = depth > 0 || p.foreign
	if depth <= maxDepth && isJSON(text) {
		p.scanJSON(s, depth)
		return s
	}
	p.add(s, p.findIn(key, s.visible()))
	return s
}

// scanJSON scans the strings and numbers of JSON: those without escapes in a single
// scan of the source.
func (p *redaction) scanJSON(s *textView, depth int) {
	src := s.doc.src
	row := row{findSpread: p.findSpread}
	open := decoded{outer: s, views: len(p.views)}
	find := p.findMeanwhile(s)
	s.literals = make([]place, 0, min(strings.Count(src, `"`)/2+64, len(src)/4+1)) // without numbers
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
		inner.outer, inner.at = s, l.start
		p.found = append(p.found, row.add(l, inner, 0, len(inner.doc.src))...)
		open.strings = append(open.strings, decodedString{l.place(), inner})
		if len(open.strings) > maxOpen+len(row.parts) {
			p.views = open.close(p.views, row.parts)
		}
	})
	p.found = append(p.found, row.flush()...)
	p.views = open.close(p.views, nil)
	for _, f := range find() {
		if parts := s.clip(span{f.Start, f.End}); len(parts) > 0 {
			p.found, s.hasValues = append(p.found, found{f.Type, parts}), true
		}
	}
}

// findMeanwhile returns a function that returns the values in the source of JSON. A large text in
// which no string has to be decoded is searched from now on.
func (p *redaction) findMeanwhile(s *textView) func() []detect.Finding {
	src := s.doc.src
	if len(src) < largeText || p.findSpread != nil || strings.IndexByte(src, '\\') >= 0 || strings.Contains(src, `"{`) ||
		strings.Contains(src, `"[`) {
		return func() []detect.Finding { return p.findIn("", s.visible()) }
	}
	all := make(chan []detect.Finding, 1)
	go func() { all <- p.findIn("", s.visible()) }()
	return func() []detect.Finding { return <-all }
}

// maxOpen is the number of decoded strings that are kept while it is not decided whether
// anything in them is replaced.
const maxOpen = 4096

// decoded are the strings of a document that were decoded last. Most have no values: these are
// dropped, since a large text has a million.
type decoded struct {
	outer   *textView
	views   int // of the redaction before those of the strings
	strings []decodedString
}

type decodedString struct {
	place
	view *textView
}

// close adds the edits of the strings to the document, without those in which nothing is
// replaced, and keeps those that are pieces of a row. It returns the views of the redaction without
// the dropped ones.
func (d *decoded) close(views []*textView, row []part) []*textView {
	inRow := make(map[*textView]bool, len(row))
	for _, at := range row {
		inRow[at.view] = true
	}
	kept := d.strings[:0]
	for _, one := range d.strings {
		inner, src := one.view, d.outer.doc.src
		switch {
		case inRow[inner]:
			kept = append(kept, one)
		case inner.hasValues || len(inner.tokens) > 0 || len(inner.doc.edits) > 0:
			d.outer.doc.replace(int(one.start), int(one.end), func() string {
				if len(inner.doc.edits) == 0 {
					return src[one.start:one.end]
				}
				return quote(inner.doc.String())
			})
		}
	}
	clear(d.strings[len(kept):])
	d.strings = kept
	rest := slices.DeleteFunc(views[d.views:], func(s *textView) bool {
		return !s.hasValues && len(s.tokens) == 0 && len(s.doc.edits) == 0 && !inRow[s]
	})
	return views[:d.views+len(rest)]
}
