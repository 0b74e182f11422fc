package redact

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// RestoreText returns text of a model, such as the content of a file, with tokens
// replaced by values. In mode Strict tokens stay, because code could read the text.
func (e *Exit) RestoreText(ctx context.Context, to, text string) (string, error) {
	if e.off() || e.Strict() {
		return text, nil
	}
	return e.restoreTokens(ctx, to, text)
}

// RestoreName is RestoreText for names that code does not read. It restores in every
// mode, so that a file is found by the name that the model was shown.
func (e *Exit) RestoreName(ctx context.Context, to, name string) (string, error) {
	if e.off() {
		return name, nil
	}
	return e.restoreTokens(ctx, to, name)
}

// RestoreVariables is RestoreText for the variables of code, in JSON. In mode Strict
// tokens become interpreter-local tokens.
func (e *Exit) RestoreVariables(ctx context.Context, vars json.RawMessage) (json.RawMessage, error) {
	if e.off() || len(vars) == 0 || !json.Valid(vars) {
		return vars, nil
	}
	text, err := e.restoreTokens(ctx, ToCode, string(vars))
	return json.RawMessage(text), err
}

// ResolveTokens returns the values of the tokens in source code, by token, and the
// tokens whose values are numbers; nil if there are none. In mode Strict the values
// are interpreter-local tokens.
func (e *Exit) ResolveTokens(ctx context.Context, source string) (all map[string]string, numbers []string, err error) {
	if e.off() {
		return nil, nil, nil
	}
	places := vault.FindTokens(source)
	if len(places) == 0 {
		return nil, nil, nil
	}
	r, err := e.restorer(ctx, places, source)
	if err == nil {
		err = e.authorize(ctx, ToCode, r)
	}
	if err != nil {
		return nil, nil, err
	}
	all = map[string]string{}
	for _, at := range places {
		token := source[at.Start:at.End]
		text := r.replacement(token, at)
		if _, again := all[token]; text == token || again {
			continue
		}
		if all[token] = text; r.values[vault.Token(token)].Number {
			numbers = append(numbers, token)
		}
	}
	return all, numbers, nil
}

// restorer replaces tokens by values.
type restorer struct{ values map[vault.Token]vault.Value }

// restorer looks up the tokens at the given positions.
func (e *Exit) restorer(ctx context.Context, places []vault.TokenSpan, text string) (restorer, error) {
	r := restorer{map[vault.Token]vault.Value{}}
	var asked []vault.Token
	for _, at := range places {
		t := vault.Token(text[at.Start:at.End])
		if at.Foreign > 0 {
			continue
		}
		if e.owner.Local.has(t) {
			r.values[t] = e.owner.Local.value(t)
			continue
		}
		asked = append(asked, t)
	}
	if len(asked) > 0 && e.owner.Vault != nil {
		values, err := e.owner.Vault.Restore(ctx, e.owner.Session, asked)
		if err != nil {
			return r, err
		}
		maps.Copy(r.values, values)
	}
	return r, nil
}

// authorize records that the values of r are restored. In mode Strict, for code, it
// replaces them by interpreter-local tokens instead.
func (e *Exit) authorize(ctx context.Context, to string, r restorer) error {
	if len(r.values) == 0 {
		return nil
	}
	if !e.Strict() || to != ToCode {
		return e.record(ctx, r.transfer(to))
	}
	for t, v := range r.values {
		if e.owner.Local == nil { // no interpreter: nothing may be restored
			delete(r.values, t)
			continue
		}
		r.values[t] = vault.Value{Type: v.Type, Text: string(e.owner.Local.create(v))}
	}
	return nil
}

func (r restorer) transfer(to string) Transfer {
	c := Transfer{Destination: to, Types: map[string]int{}}
	for _, t := range slices.Sorted(maps.Keys(r.values)) {
		c.Types[string(r.values[t].Type)]++
		c.Tokens = append(c.Tokens, string(t))
	}
	return c
}

// replacement returns what replaces a token: its value; or itself if it is not known;
// or, for a foreign one, itself with one mark less.
func (r restorer) replacement(token string, at vault.TokenSpan) string {
	if at.Foreign > 0 {
		return "[" + token[2:]
	}
	if v, ok := r.values[vault.Token(token)]; ok {
		return v.Text
	}
	return token
}

// restoreTokens returns text with tokens replaced by values.
func (e *Exit) restoreTokens(ctx context.Context, to, text string) (string, error) {
	places, holder := e.tokensIn(text)
	if len(places) == 0 {
		return text, nil
	}
	r, err := e.restorer(ctx, places, holder)
	if err == nil {
		err = e.authorize(ctx, to, r)
	}
	if err != nil {
		return "", err
	}
	return r.write(text, 0).String(), nil
}

// tokensIn returns the tokens of a text and of JSON strings in it, as positions in a
// text that contains them all.
func (e *Exit) tokensIn(text string) ([]vault.TokenSpan, string) {
	var all strings.Builder
	gather(&all, text, 0)
	holder := all.String()
	return vault.FindTokens(holder), holder
}

func gather(all *strings.Builder, text string, depth int) {
	for _, at := range vault.FindTokens(text) {
		all.WriteString(text[at.Start:at.End])
	}
	if depth > maxDepth || !isJSON(text) {
		return
	}
	literals(text, func(l literal) {
		if !l.number && needsDecoding(text[l.start:l.end]) {
			gather(all, unquote(text[l.start:l.end]), depth+1)
		}
	})
}

// write returns text as a document with its tokens replaced.
func (r restorer) write(text string, depth int) *document {
	doc := &document{src: text}
	if depth > maxDepth || !isJSON(text) {
		for _, at := range vault.FindTokens(text) {
			token := text[at.Start:at.End]
			doc.replace(at.Start, at.End, func() string { return r.replacement(token, at) })
		}
		return doc
	}
	literals(text, func(l literal) {
		if lit := text[l.start:l.end]; !l.number && strings.Contains(unquote(lit), "[") {
			if now, changed := r.literal(unquote(lit), l.isKey, depth); changed {
				doc.replace(l.start, l.end, func() string { return now })
			}
		}
	})
	return doc
}

// literal returns a JSON string with its tokens replaced, or the number if the string
// is the token of one, and whether anything changed.
func (r restorer) literal(s string, isKey bool, depth int) (string, bool) {
	if v, ok := r.values[vault.Token(s)]; ok && v.Number && !isKey {
		return v.Text, true
	}
	inner := r.write(s, depth+1)
	if len(inner.edits) == 0 {
		return "", false
	}
	return quote(inner.String()), true
}

// Detokenize returns text with tokens replaced by values, on request of code. In mode
// Strict it returns the text unchanged.
func (e *Exit) Detokenize(ctx context.Context, text string) (string, error) {
	if e.off() {
		return "", errOff
	}
	if e.Strict() {
		return text, nil
	}
	return e.restoreTokens(ctx, ToCode, text)
}
