package redact

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// replacer replaces values by tokens.
type replacer struct {
	disclosed    func(context.Context, []vault.Token) (map[vault.Token]bool, error) // which tokens may stay; nil: none
	createTokens func(context.Context, []vault.Value) ([]vault.Token, error)        // nil leaves values in place
	// text with the syntax of a token is not marked as foreign
	keepForeign bool
	local       *LocalTokens // tokens of the interpreter, which are replaced as their values are

	values []vault.Value
	index  map[vault.Value]int // of each value in values
	tokens []vault.Token
}

// planEdits decides which tokens stay, creates tokens for the values found and adds
// the edits to the documents.
func (r *replacer) planEdits(ctx context.Context, views []*textView, all []found) error {
	if len(all) == 0 && !slices.ContainsFunc(views, func(s *textView) bool { return len(s.tokens) > 0 }) {
		return nil
	}
	disclosed, err := r.findDisclosed(ctx, views)
	if err != nil {
		return err
	}
	r.index = map[vault.Value]int{}
	foreign := make([][]vault.TokenSpan, len(views))
	for i, s := range views {
		var local []found
		local, foreign[i] = r.classifyTokens(s, disclosed)
		all = append(all, local...)
	}
	if len(views) > 0 { // most edits are usually in the text itself
		views[0].doc.edits = slices.Grow(views[0].doc.edits, len(all)+len(foreign[0]))
	}
	for _, f := range all {
		r.replace(f)
	}
	for i, s := range views {
		for _, here := range foreign[i] {
			if !r.keepForeign && !s.covered.overlaps(span{here.Start, here.End}) {
				s.doc.replace(here.Start+1, here.Start+1, func() string { return "~" })
			}
		}
		slices.SortStableFunc(s.doc.edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	}
	if len(r.values) > 0 && r.createTokens != nil {
		r.tokens, err = r.createTokens(ctx, r.values)
	}
	return err
}

// findDisclosed returns which tokens in the text the session already has.
func (r *replacer) findDisclosed(ctx context.Context, views []*textView) (map[vault.Token]bool, error) {
	if r.disclosed == nil {
		return nil, nil
	}
	var asked []vault.Token
	seen := map[vault.Token]bool{}
	for _, s := range views {
		for _, at := range s.tokens {
			if t := vault.Token(s.doc.src[at.Start:at.End]); at.Foreign == 0 && !seen[t] {
				asked, seen[t] = append(asked, t), true
			}
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	return r.disclosed(ctx, asked)
}

// classifyTokens sorts text with the syntax of a token: disclosed tokens stay,
// interpreter-local tokens are to be replaced, and the rest is foreign.
func (r *replacer) classifyTokens(s *textView, disclosed map[vault.Token]bool) (local []found, foreign []vault.TokenSpan) {
	for _, here := range s.tokens {
		if i := literalAt(s.nested, here.Start); i < len(s.nested) && int(s.nested[i].start) < here.Start {
			continue
		}
		at := span{here.Start, here.End}
		switch t := vault.Token(s.doc.src[at.start:at.end]); {
		case r.local.has(t):
			local = append(local, found{"", []part{{s, at}}})
		case disclosed[t]:
			s.covered.mark(s.doc.src, at)
		default:
			foreign = append(foreign, here)
		}
	}
	return local, foreign
}

// replace replaces the first part of a value by its token and removes the other parts.
// If some of it is covered already, each uncovered rest is replaced as a value of its
// own.
func (r *replacer) replace(f found) {
	if slices.ContainsFunc(f.parts, func(at part) bool { return at.view.covered.overlaps(at.span) }) {
		for _, rest := range f.uncovered() {
			r.replace(rest)
		}
		return
	}
	n := r.number(r.value(f))
	for i, at := range f.parts {
		at.view.covered.mark(at.view.doc.src, at.span)
		if r.createTokens == nil {
			continue
		}
		e := edit{start: int32(at.start), end: int32(at.end), token: noToken, quoted: at.view.isNumber(at.start)}
		if i == 0 {
			e.token = int32(n)
		}
		at.view.doc.tokens = &r.tokens
		at.view.doc.edits = append(at.view.doc.edits, e)
	}
}

// number returns the index of a value in values, which it adds.
func (r *replacer) number(v vault.Value) int {
	n, known := r.index[v]
	if !known {
		n, v.Text = len(r.values), strings.Clone(v.Text) // the vault must not keep the whole text
		r.values, r.index[v] = append(r.values, v), n
	}
	return n
}

// value returns what was found in the form that the vault stores. It may share memory with the
// text.
func (r *replacer) value(f found) vault.Value {
	text := f.text()
	if f.typ == "" {
		return r.local.value(vault.Token(text))
	}
	first := f.parts[0]
	return vault.Value{Type: f.typ, Text: text, Number: len(f.parts) == 1 && first.view.isNumber(first.start)}
}

func (f found) text() string {
	first := f.parts[0]
	if len(f.parts) == 1 {
		return first.view.doc.src[first.start:first.end]
	}
	var b strings.Builder
	for i, at := range f.parts {
		if i > 0 && f.typ == detect.PrivateKey { // keys are line-based
			b.WriteByte('\n')
		}
		b.WriteString(at.view.doc.src[at.start:at.end])
	}
	return b.String()
}
