// Package search finds tools in a catalog by words, with no model and no service;
// with what a model says of their meaning as well, if its caller has one.
//
// It is a BM25F ranking over the fields of a tool, with what makes it find tools
// that are asked for in other words: stems, names taken apart (listIssues,
// consumer-group, airquality), a lexicon of English and API words that mean much
// the same, typing errors put right, the server's tools as context for each of
// them, and the parts of a long question ranked each on its own.
//
// Words. A term is the stem under which words are counted. A concept is one word
// of a question with its synonyms; it counts once in a tool, however many of them
// the tool has. A segment is a part of a question that asks for one thing.
//
// An Index never changes after New and is safe for concurrent use; the same docs
// and the same query give the same hits in the same order. The package does no
// I/O, keeps nothing of what was asked, learns nothing from use, and does not
// know who may see which tool: its caller indexes what they may see.
package search

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding"
)

// Doc is what is known of one tool. Every field may be empty; texts are bounded
// by who gives them.
type Doc struct {
	Name, Server, Category, Description, ServerDescription string

	Params              []string // names of the parameters
	Functions, UseCases []string
}

// Query asks for tools.
type Query struct {
	Text     string // words, part of a name, or a question; "" lists
	Category string // only tools of it, in any case; "" means all
	Limit    int    // how many to return; 0 and less means 10
	// Similarities says how near in meaning tools are to the text, each by its place in
	// what New was given; nil means that words alone are searched for.
	Similarities *embedding.Similarities
}

// Hits are the tools that match.
type Hits struct {
	Total int   // all that match
	Found []Hit // the best of them, best first
}

// Hit is one tool that matches.
type Hit struct {
	Doc   int     // its place in what New was given
	Score float64 // comparable within one Hits only
}

// Index answers queries.
type Index struct {
	names      []string // of the tools, in lower case
	categories []string // likewise
	dictionary
	ranking
	containment
	scratch sync.Pool // *scratch
}

// New makes an index of docs, which it does not keep.
func New(docs []Doc) *Index {
	x := &Index{names: make([]string, len(docs)), categories: make([]string, len(docs))}
	for i, d := range docs {
		x.names[i], x.categories[i] = strings.ToLower(d.Name), strings.ToLower(d.Category)
	}
	b := newBuilder(docs, &x.dictionary)
	b.addCompounds(docs)
	x.ranking = b.ranking(docs)
	x.dictionary.finish(&x.ranking)
	x.containment = newContainment(docs)
	x.scratch.New = func() any { return newScratch(x) }
	return x
}

// longestText is how much of a question is read, in bytes.
const longestText = 2000

// Search finds the tools that contain the text in their name, description,
// functions or use cases, in any case, and those that speak of what it speaks
// of: whose score for words is a fifth of the best one's at least. Ranking orders
// them all. An empty text matches all tools of the category, in the order of the
// docs.
func (x *Index) Search(q Query) Hits {
	if q.Limit <= 0 {
		q.Limit = 10
	}
	q.Category = strings.ToLower(strings.TrimSpace(q.Category))
	q.Text = strings.ReplaceAll(strings.ToValidUTF8(cut(q.Text, longestText), " "), separator, " ")
	q.Text = strings.TrimSpace(q.Text)
	if q.Text == "" {
		return x.list(q)
	}
	if q.Similarities != nil {
		return x.both(q)
	}
	s := x.scratch.Get().(*scratch)
	defer x.scratch.Put(s)
	return x.rank(q, s)
}

func cut(text string, n int) string {
	if len(text) > n {
		return text[:n]
	}
	return text
}

func (x *Index) list(q Query) (h Hits) {
	for d := range x.names {
		if !x.in(d, q.Category) {
			continue
		}
		if h.Total++; h.Total <= q.Limit {
			h.Found = append(h.Found, Hit{Doc: d})
		}
	}
	return h
}

// in says whether a tool is of the category, which is in lower case.
func (x *Index) in(doc int, category string) bool {
	return category == "" || x.categories[doc] == category
}

// better orders hits: by score, then as the docs stand.
func better(a, b Hit) int {
	switch {
	case a.Score > b.Score:
		return -1
	case a.Score < b.Score:
		return 1
	}
	return cmp.Compare(a.Doc, b.Doc)
}

// best keeps the n best of hits, in order. It reorders hits.
func best(hits []Hit, n int) []Hit {
	slices.SortFunc(hits, better)
	return hits[:min(n, len(hits))]
}
