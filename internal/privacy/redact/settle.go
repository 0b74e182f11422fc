package redact

import (
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// settle decides what stands, and has tokens made of the rest.
func (p *passage) settle(ctx context.Context) error {
	if len(p.found) == 0 && !slices.ContainsFunc(p.sights, func(s *sight) bool { return len(s.places) > 0 }) {
		return nil
	}
	given, err := p.known(ctx)
	if err != nil {
		return err
	}
	p.number = map[vault.Value]int{}
	foreign := make([][]vault.Place, len(p.sights))
	for i, s := range p.sights {
		foreign[i] = p.sort(s, given)
	}
	for _, f := range p.found {
		p.replace(f)
	}
	for i, s := range p.sights {
		for _, here := range foreign[i] {
			if !p.plain && !s.taken.touches(span{here.Start, here.End}) {
				s.doc.put(here.Start+1, here.Start+1, func() string { return "~" })
			}
		}
		slices.SortStableFunc(s.doc.edits, func(a, b edit) int { return a.start - b.start })
	}
	if len(p.values) > 0 && p.make != nil {
		p.tokens, err = p.make(ctx, p.values)
	}
	return err
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

// sort tells what looks like a token apart: what stands, what is only this
// interpreter's, and what is foreign, which it returns.
func (p *passage) sort(s *sight, given map[vault.Token]bool) (foreign []vault.Place) {
	for _, here := range s.places {
		if i := at(s.nested, here.Start); i < len(s.nested) && s.nested[i].start < here.Start {
			continue
		}
		at := span{here.Start, here.End}
		switch t := vault.Token(s.doc.src[at.start:at.end]); {
		case p.local.has(t):
			p.found = append(p.found, found{"", []part{{s, at}}})
		case given[t]:
			s.taken.mark(s.doc.src, at)
		default:
			foreign = append(foreign, here)
		}
	}
	return foreign
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
// place of the others. If something of it is taken already, what is left of it is
// replaced by itself.
func (p *passage) replace(f found) {
	if slices.ContainsFunc(f.parts, func(at part) bool { return at.in.taken.touches(at.span) }) {
		for _, rest := range f.untaken() {
			p.replace(rest)
		}
		return
	}
	v := p.value(f)
	n, known := p.number[v]
	if !known {
		n = len(p.values)
		p.values, p.number[v] = append(p.values, v), n
	}
	for i, at := range f.parts {
		at.in.taken.mark(at.in.doc.src, at.span)
		if p.make == nil {
			continue
		}
		number := at.in.isNumber(at.start)
		at.in.doc.put(at.start, at.end, func() string {
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
func (p *passage) value(f found) vault.Value {
	var b strings.Builder
	for i, at := range f.parts {
		if i > 0 && f.typ == detect.PrivateKey { // which is written in lines, and is none without them
			b.WriteByte('\n')
		}
		b.WriteString(at.in.doc.src[at.start:at.end])
	}
	if f.typ == "" {
		return p.local.value(vault.Token(b.String()))
	}
	first := f.parts[0]
	return vault.Value{Type: f.typ, Text: b.String(), Number: len(f.parts) == 1 && first.in.isNumber(first.start)}
}

// isNumber reports whether a number begins at a place.
func (s *sight) isNumber(place int) bool {
	i := at(s.lits, place)
	return i < len(s.lits) && s.lits[i].number && s.lits[i].start == place
}
