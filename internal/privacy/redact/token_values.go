package redact

import (
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// tokenValues are the values that the tokens of one text are replaced by.
type tokenValues map[vault.Token]vault.Value

func (v tokenValues) transfer(to string) Transfer {
	c := Transfer{Destination: to, Types: map[string]int{}}
	for _, t := range slices.Sorted(maps.Keys(v)) {
		c.Types[string(v[t].Type)]++
		c.Tokens = append(c.Tokens, string(t))
	}
	return c
}

// replacement returns what replaces a token: its value; or itself if it is not known;
// or, for a foreign one, itself with one mark less.
func (v tokenValues) replacement(token string, at vault.TokenSpan) string {
	if at.Foreign > 0 {
		return "[" + token[2:]
	}
	if one, ok := v[vault.Token(token)]; ok {
		return one.Text
	}
	return token
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
func (v tokenValues) write(text string, depth int) *document {
	doc := &document{src: text}
	if depth > maxDepth || !isJSON(text) {
		for _, at := range vault.FindTokens(text) {
			token := text[at.Start:at.End]
			doc.replace(at.Start, at.End, func() string { return v.replacement(token, at) })
		}
		return doc
	}
	literals(text, func(l literal) {
		if lit := text[l.start:l.end]; !l.number && strings.Contains(unquote(lit), "[") {
			if now, changed := v.literal(unquote(lit), l.isKey, depth); changed {
				doc.replace(l.start, l.end, func() string { return now })
			}
		}
	})
	return doc
}

// literal returns a JSON string with its tokens replaced, or the number if the string
// is the token of one, and whether anything changed.
func (v tokenValues) literal(s string, isKey bool, depth int) (string, bool) {
	if one, ok := v[vault.Token(s)]; ok && one.Number && !isKey {
		return one.Text, true
	}
	inner := v.write(s, depth+1)
	if len(inner.edits) == 0 {
		return "", false
	}
	return quote(inner.String()), true
}

// tokensIn returns the tokens of a text and of JSON strings in it, as positions in a
// text that contains them all.
func tokensIn(text string) ([]vault.TokenSpan, string) {
	var all strings.Builder
	gather(&all, text, 0)
	holder := all.String()
	return vault.FindTokens(holder), holder
}
