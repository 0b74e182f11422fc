package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tools that are ranked by both keywords and similarity.
const (
	wordCandidates       = 200
	similarityCandidates = 100
)

// searchCombined adds similarity to a keyword search. A tool that only similarity found gets
// the lowest keyword score.
func (x *Index) searchCombined(q Query) Hits {
	words := q
	words.Similarities, words.Limit = nil, max(wordCandidates, q.Limit)
	h := x.Search(words)
	seen, least := make(map[int]bool, len(h.Found)), 0.0
	for i, f := range h.Found {
		seen[f.Doc], least = true, f.Score
		h.Found[i].Score += x.weights.similarity * q.Similarities.Score(f.Doc)
	}
	if len(h.Found) < words.Limit {
		least = 0
	}
	for _, d := range q.Similarities.Best(max(similarityCandidates, q.Limit), func(d int) bool { return x.in(d, q.Category) }) {
		if !seen[d] {
			h.Found = append(h.Found, Hit{d, least + x.weights.similarity*q.Similarities.Score(d)})
		}
	}
	h.Found = best(h.Found, q.Limit)
	h.Total = max(h.Total, len(h.Found))
	return h
}

// Limits in bytes of the texts that are embedded: a model reads about 250 words, and
// long texts make vectors less specific.
const (
	maxToolText   = 300
	maxServerText = 200
)

// EmbeddingText returns the text of a tool that is embedded.
func (d Doc) EmbeddingText() string {
	return splitName(d.Server) + " " + splitName(d.Name) + ": " + prefix(d.Description, maxToolText) + " " + prefix(d.ServerDescription,
		maxServerText)
}

// splitName splits a name: listIssues and list_issues become "list Issues".
func splitName(name string) string {
	var b strings.Builder
	before := ' '
	for _, r := range prefix(name, maxServerText) {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			b.WriteByte(' ')
		}
		before = r
		if notWord(r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// prefix returns the first n bytes of a text in one line.
func prefix(text string, n int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(truncate(text, maxField), "")), " ")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
