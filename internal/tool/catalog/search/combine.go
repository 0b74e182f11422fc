package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// How words and meaning are weighed.
const (
	// nearWeight is what one standard deviation nearer than other tools is worth,
	// where the best score for words alone is 1. With a small model words still say
	// more; what both find comes first.
	nearWeight = .1
	byWords    = 200 // candidates
	byMeaning  = 100
)

// both searches by words, and adds what meaning says. What words did not find
// counts as the last that they did.
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

// Lengths of the texts that vectors are made of, in bytes: a model reads some 250
// words, and blurs many.
const (
	saidOfTool   = 300
	saidOfServer = 200
)

// EmbeddingText is what a tool says of itself to a model that makes a vector of it.
func (d Doc) EmbeddingText() string {
	return spaced(d.Server) + " " + spaced(d.Name) + ": " + begin(d.Description, saidOfTool) + " " + begin(d.ServerDescription, saidOfServer)
}

// spaced takes a name apart: listIssues and list_issues are list Issues.
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

// begin is the beginning of a text in one line, at most n bytes.
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
