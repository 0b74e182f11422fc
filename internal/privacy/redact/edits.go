package redact

import (
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// planEdits decides which tokens stay, creates tokens for the values and adds the
// edits to the documents.
func (p *pass) planEdits(ctx context.Context) error {
	if len(p.found) == 0 && !slices.ContainsFunc(p.views, func(s *textView) bool { return len(s.tokens) > 0 }) {
		return nil
	}
	given, err := p.findDisclosed(ctx)
	if err != nil {
		return err
	}
	p.index = map[vault.Value]int{}
	foreign := make([][]vault.TokenSpan, len(p.views))
	for i, s := range p.views {
		foreign[i] = p.classifyTokens(s, given)
	}
	for _, f := range p.found {
		p.replace(f)
	}
	for i, s := range p.views {
		for _, here := range foreign[i] {
			if !p.keepForeign && !s.covered.overlaps(span{here.Start, here.End}) {
				s.doc.replace(here.Start+1, here.Start+1, func() string { return "~" })
			}
		}
		slices.SortStableFunc(s.doc.edits, func(a, b edit) int { return a.start - b.start })
	}
	if len(p.values) > 0 && p.createTokens != nil {
		p.tokens, err = p.createTokens(ctx, p.values)
	}
	return err
}

// findDisclosed returns which tokens in the text the session already has.
func (p *pass) findDisclosed(ctx context.Context) (map[vault.Token]bool, error) {
	if p.disclosed == nil {
		return nil, nil
	}
	var asked []vault.Token
	for _, s := range p.views {
		for _, at := range s.tokens {
			if at.Foreign == 0 {
				asked = append(asked, vault.Token(s.doc.src[at.Start:at.End]))
			}
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	return p.disclosed(ctx, asked)
}

// classifyTokens sorts text with the syntax of a token: disclosed tokens stay,
// interpreter-local tokens are replaced, and the rest is foreign and returned.
func (p *pass) classifyTokens(s *textView, given map[vault.Token]bool) (foreign []vault.TokenSpan) {
	for _, here := range s.tokens {
		if i := literalAt(s.nested, here.Start); i < len(s.nested) && s.nested[i].start < here.Start {
			continue
		}
		at := span{here.Start, here.End}
		switch t := vault.Token(s.doc.src[at.start:at.end]); {
		case p.local.has(t):
			p.found = append(p.found, found{"", []part{{s, at}}})
		case given[t]:
			s.covered.mark(s.doc.src, at)
		default:
			foreign = append(foreign, here)
		}
	}
	return foreign
}

// byteSet marks bytes of a text.
type byteSet []bool

func (m *byteSet) mark(src string, s span) {
	if *m == nil {
		*m = make(byteSet, len(src))
	}
	for i := s.start; i < s.end; i++ {
		(*m)[i] = true
	}
}

func (m byteSet) overlaps(s span) bool { return m != nil && slices.Contains(m[s.start:s.end], true) }

// replace replaces the first part of a value by its token and removes the other parts.
// If some of it is covered already, each uncovered rest is replaced as a value of its
// own.
func (p *pass) replace(f found) {
	if slices.ContainsFunc(f.parts, func(at part) bool { return at.view.covered.overlaps(at.span) }) {
		for _, rest := range f.uncovered() {
			p.replace(rest)
		}
		return
	}
	v := p.value(f)
	n, known := p.index[v]
	if !known {
		n = len(p.values)
		p.values, p.index[v] = append(p.values, v), n
	}
	for i, at := range f.parts {
		at.view.covered.mark(at.view.doc.src, at.span)
		if p.createTokens == nil {
			continue
		}
		number := at.view.isNumber(at.start)
		at.view.doc.replace(at.start, at.end, func() string {
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

// value returns what was found in the form that the vault stores.
func (p *pass) value(f found) vault.Value {
	var b strings.Builder
	for i, at := range f.parts {
		if i > 0 && f.typ == detect.PrivateKey { // keys are line-based
			b.WriteByte('\n')
		}
		b.WriteString(at.view.doc.src[at.start:at.end])
	}
	if f.typ == "" {
		return p.local.value(vault.Token(b.String()))
	}
	first := f.parts[0]
	return vault.Value{Type: f.typ, Text: b.String(), Number: len(f.parts) == 1 && first.view.isNumber(first.start)}
}

// isNumber reports whether a JSON number begins at a position.
func (s *textView) isNumber(place int) bool {
	i := literalAt(s.literals, place)
	return i < len(s.literals) && s.literals[i].number && s.literals[i].start == place
}
