package egress

import (
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/pii"
	"github.com/sandpiper-mcp/sandpiper/internal/vault"
)

// passage is one text on its way over a border. What is found in it is collected
// first, so that all of its tokens are made at once.
type passage struct {
	find  func(key, text string) []pii.Finding
	given func(context.Context, []vault.Token) (map[vault.Token]bool, error) // which tokens may stand; nil means none
	make  func(context.Context, []vault.Value) ([]vault.Token, error)        // nil leaves values where they are
	split func(src string, pieces []literal) []found                         // values that go over several strings; nil looks for none
	plain bool                                                               // what only looks like a token is left as it is
	local *Locals                                                            // its tokens stand for their values

	sights []*sight
	values []vault.Value
	number map[vault.Value]int // of each in values
	tokens []vault.Token
}

// sight is a document, or one in a string of another, and what was seen in it.
type sight struct {
	doc    *document
	found  []found
	places []vault.Place // what looks like a token
	lits   []literal     // of JSON: the strings and numbers that are no documents of their own
	nested []literal     // and those that are
}

// found is a value: one part of a document, or several that make it up together.
type found struct {
	typ   pii.Type // "" for a token of this execution alone
	parts []span
}

type span struct{ start, end int }

// pass takes a text over the border. Of JSON the answer is JSON too.
func (p *passage) pass(ctx context.Context, key, text string) (string, error) {
	p.number = map[vault.Value]int{}
	doc := p.look(key, text, 0)
	if len(p.sights) == 0 {
		return text, nil
	}
	given, err := p.known(ctx)
	if err != nil {
		return "", err
	}
	for _, s := range p.sights {
		p.decide(s, given)
	}
	if len(p.values) > 0 && p.make != nil {
		if p.tokens, err = p.make(ctx, p.values); err != nil {
			return "", err
		}
	}
	return doc.String(), nil
}

// part is pass for a part of a text. What begins before it is left out, and what
// begins in it is whole.
func (p *passage) part(ctx context.Context, page Page) (string, error) {
	p.number = map[vault.Value]int{}
	s := &sight{doc: &document{src: page.Text}, places: vault.Places(page.Text)}
	for _, f := range p.find("", page.Text) {
		if f.Start < page.End && f.End > page.Start {
			s.found = append(s.found, found{f.Type, []span{{f.Start, f.End}}})
		}
	}
	p.sights = []*sight{s}
	given, err := p.known(ctx)
	if err != nil {
		return "", err
	}
	p.decide(s, given)
	if len(p.values) > 0 {
		if p.tokens, err = p.make(ctx, p.values); err != nil {
			return "", err
		}
	}
	return s.doc.part(page.Start, page.End), nil
}

// look finds what is in a text and in the texts that it holds.
func (p *passage) look(key, text string, depth int) *document {
	s := &sight{doc: &document{src: text}, places: vault.Places(text)}
	if depth <= deepest && isJSON(text) {
		p.lookInto(s, depth)
	} else {
		for _, f := range p.find(key, text) {
			s.found = append(s.found, found{f.Type, []span{{f.Start, f.End}}})
		}
	}
	if len(s.found) > 0 || len(s.places) > 0 {
		p.sights = append(p.sights, s)
	}
	return s.doc
}

// lookInto looks at the strings and numbers of JSON: at those without escapes all
// at once, as they stand.
func (p *passage) lookInto(s *sight, depth int) {
	src := s.doc.src
	literals(src, func(l literal) {
		if l.number || !apart(src[l.start:l.end]) {
			s.lits = append(s.lits, l)
			return
		}
		s.nested = append(s.nested, l)
		inner := p.look(l.key, unquote(src[l.start:l.end]), depth+1)
		s.doc.put(l.start, l.end, func() string {
			if len(inner.edits) == 0 {
				return src[l.start:l.end]
			}
			return quote(inner.String())
		})
	})
	for _, f := range p.find("", without(src, s.nested)) {
		if parts := clip(span{f.Start, f.End}, src, s.lits); len(parts) > 0 {
			s.found = append(s.found, found{f.Type, parts})
		}
	}
	if p.split == nil {
		return
	}
	for _, run := range lists(s.lits) {
		s.found = append(s.found, p.split(src, run)...)
	}
}

// without is src with nothing to find in some of its strings.
func without(src string, some []literal) string {
	if len(some) == 0 {
		return src
	}
	b := []byte(src)
	for _, l := range some {
		for i := l.start + 1; i < l.end-1; i++ {
			b[i] = 0 // which no value has, and no disguise
		}
	}
	return string(b)
}

// apart reports whether a string of JSON has to be read before it is looked at.
func apart(lit string) bool {
	if strings.IndexByte(lit, '\\') >= 0 {
		return true
	}
	return (lit[1] == '{' || lit[1] == '[') && isJSON(lit[1:len(lit)-1])
}

// at returns the first of literals that ends behind a place.
func at(lits []literal, place int) int {
	i, _ := slices.BinarySearchFunc(lits, place, func(l literal, place int) int {
		if l.end <= place {
			return -1
		}
		return 1
	})
	return i
}

// clip returns the parts of a place that lie in literals, without their quotes;
// numbers are taken whole. A key of small letters is left alone: such are those
// that our answers are built of.
func clip(in span, src string, lits []literal) (parts []span) {
	for i := at(lits, in.start); i < len(lits) && lits[i].start < in.end; i++ {
		l := lits[i]
		part := span{l.start, l.end}
		if !l.number {
			part = span{max(in.start, l.start+1), min(in.end, l.end-1)}
		}
		if part.start < part.end && !(l.isKey && plain(src[l.start+1:l.end-1])) {
			parts = append(parts, part)
		}
	}
	return parts
}

func plain(key string) bool { return strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") == "" }

// lists returns the runs of strings that are elements of one list, two at least.
func lists(lits []literal) (runs [][]literal) {
	for i := 0; i < len(lits); {
		n := i + 1
		for n < len(lits) && lits[i].list > 0 && lits[n].list == lits[i].list && !lits[n].number && !lits[i].number {
			n++
		}
		if n > i+1 {
			runs = append(runs, lits[i:n])
		}
		i = n
	}
	return runs
}

// known asks which of the tokens that stand in the text its reader knows already.
func (p *passage) known(ctx context.Context) (map[vault.Token]bool, error) {
	if p.given == nil {
		return nil, nil
	}
	var asked []vault.Token
	for _, s := range p.sights {
		for _, at := range s.places {
			if at.Foreign == 0 {
				asked = append(asked, vault.Token(s.doc.src[at.Start:at.End]))
			}
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	return p.given(ctx, asked)
}

// decide makes edits of what was found in a document, unless it lies in a token
// that stands, or in what has been replaced already.
func (p *passage) decide(s *sight, given map[vault.Token]bool) {
	var taken marked
	var foreign []vault.Place
	for _, here := range s.places {
		if i := at(s.nested, here.Start); i < len(s.nested) && s.nested[i].start < here.Start {
			continue
		}
		switch t := vault.Token(s.doc.src[here.Start:here.End]); {
		case p.local.has(t):
			s.found = append(s.found, found{"", []span{{here.Start, here.End}}})
		case given[t]:
			taken.mark(s.doc.src, span{here.Start, here.End})
		default:
			foreign = append(foreign, here)
		}
	}
	for _, f := range s.found {
		if !slices.ContainsFunc(f.parts, taken.touches) {
			for _, part := range f.parts {
				taken.mark(s.doc.src, part)
			}
			p.replace(s, f)
		}
	}
	for _, here := range foreign {
		if !p.plain && !taken.touches(span{here.Start, here.End}) {
			s.doc.put(here.Start+1, here.Start+1, func() string { return "~" })
		}
	}
	slices.SortStableFunc(s.doc.edits, func(a, b edit) int { return a.start - b.start })
}

// marked are the bytes of a text that are taken.
type marked []bool

func (m *marked) mark(src string, s span) {
	if *m == nil {
		*m = make(marked, len(src))
	}
	for i := s.start; i < s.end; i++ {
		(*m)[i] = true
	}
}

func (m marked) touches(s span) bool { return m != nil && slices.Contains(m[s.start:s.end], true) }

// replace puts the token of a value in place of its first part, and nothing in
// place of the others.
func (p *passage) replace(s *sight, f found) {
	v := p.value(s, f)
	n, known := p.number[v]
	if !known {
		n = len(p.values)
		p.values, p.number[v] = append(p.values, v), n
	}
	if p.make == nil {
		return
	}
	for i, part := range f.parts {
		number := isNumber(s.lits, part.start)
		s.doc.put(part.start, part.end, func() string {
			text := ""
			if i == 0 {
				text = string(p.tokens[n])
			}
			if number {
				return `"` + text + `"`
			}
			return text
		})
	}
}

// value is what was found, as the vault is to keep it.
func (p *passage) value(s *sight, f found) vault.Value {
	var b strings.Builder
	for _, part := range f.parts {
		b.WriteString(s.doc.src[part.start:part.end])
	}
	if f.typ == "" {
		return p.local.value(vault.Token(b.String()))
	}
	return vault.Value{Type: f.typ, Text: b.String(), Number: len(f.parts) == 1 && isNumber(s.lits, f.parts[0].start)}
}

// isNumber reports whether a number begins at a place.
func isNumber(lits []literal, place int) bool {
	i := at(lits, place)
	return i < len(lits) && lits[i].number && lits[i].start == place
}
