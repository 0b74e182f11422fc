package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Weights of words and similarity.
const (
	// nearWeight is the score of one standard deviation of similarity; the best score for
	// words is 1. With a small model words are more reliable.
	nearWeight = .1
	byWords    = 200 // candidates
	byMeaning  = 100
)

// both searches by words and adds similarity. A tool that words did not find gets the
// lowest score for words.
func (x *Index) both(q Query) Hits {
	words := q
	words.Similarities, words.Limit = nil, max(byWords, q.Limit)
	h := x.Search(words)
	seen, least := make(map[int]bool, len(h.Found)), 0.0
	for i, f := range h.Found {
		seen[f.Doc], least = true, f.Score
		h.Found[i].Score += nearWeight * q.Similarities.Score(f.Doc)
	}
	if len(h.Found) < words.Limit {
		least = 0
	}
	for _, d := range q.Similarities.Best(max(byMeaning, q.Limit), func(d int) bool { return x.in(d, q.Category) }) {
		if !seen[d] {
			h.Found = append(h.Found, Hit{d, least + nearWeight*q.Similarities.Score(d)})
		}
	}
	h.Found = best(h.Found, q.Limit)
	h.Total = max(h.Total, len(h.Found))
	return h
}

// Limits in bytes of the texts that are embedded: a model reads about 250 words, and
// long texts make vectors less specific.
const (
	saidOfTool   = 300
	saidOfServer = 200
)

// EmbeddingText returns the text of a tool that is embedded.
func (d Doc) EmbeddingText() string {
	return spaced(d.Server) + " " + spaced(d.Name) + ": " + begin(d.Description, saidOfTool) + " " + begin(d.ServerDescription, saidOfServer)
}

// spaced splits a name: listIssues and list_issues become "list Issues".
func spaced(name string) string {
	var b strings.Builder
	before := ' '
	for _, r := range begin(name, saidOfServer) {
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

// begin returns the first n bytes of a text in one line.
func begin(text string, n int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(cut(text, longestField), "")), " ")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
