// Package search finds tools in a catalog by keywords, and combines the matches with vector
// similarity if the caller has an embedding model.
//
// The ranking is BM25F over the fields of a tool, extended by stems, splitting of names
// (listIssues, consumer-group, airquality), a lexicon of English and API synonyms,
// correction of typos, the other tools of the server as context, and separate
// ranking of the parts of a long query.
//
// Terms. A term is the stem under which words are counted. A concept is a word of a query
// with its synonyms; it counts once in a tool, even if the tool has several of them. A
// segment is a part of a query that asks for one thing.
//
// An Index is immutable and safe for concurrent use; equal docs and queries give equal
// hits in equal order. The package does no I/O, stores no queries, and does not control
// access: the caller indexes only tools that its users may see.
package search

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// Doc is the indexed data of one tool. Every field may be empty.
type Doc struct {
	Name, Server, Category, Description, ServerDescription string

	Params              []string // names of the parameters
	Functions, UseCases []string
}

// Query is a search for tools.
type Query struct {
	Text     string // words, part of a name, or a question; "" lists
	Category string // only tools of it, in any case; "" means all
	Limit    int    // maximum number of hits; 0 or less means 10
	// Similarities are those of the tools to the text, by position in the docs of New; nil
	// means keyword search only.
	Similarities Similarities
	// Boosts are those of Index.Boosts, by position in the docs; nil means none.
	Boosts map[int]Boost
}

// Similarities are those of tools to a text, by position.
type Similarities interface {
	// Score returns by how much the similarity of a tool exceeds the mean of all tools, in standard
	// deviations; 0 if it is not known.
	Score(tool int) float64
	// Best returns up to limit tools for which include returns true, the most similar first.
	Best(limit int, include func(tool int) bool) []int
}

// Hits is the result of a search.
type Hits struct {
	Total int   // number of matching tools
	Found []Hit // the best of them, sorted
}

// Hit is one matching tool.
type Hit struct {
	Doc   int     // index in the docs passed to New
	Score float64 // comparable within one Hits only
}

// Index answers queries.
type Index struct {
	names      []string // of the tools, in lower case
	categories []string // of the tools, in lower case
	weights    weights
	dictionary
	ranking
	containment
	scratch    sync.Pool // *scratch
	unknownIDF float64   // of a term that no doc has
}

// New builds an index of docs, which it does not retain.
func New(docs []Doc) *Index { return newIndex(docs, defaultWeights) }

func newIndex(docs []Doc, w weights) *Index {
	x := &Index{weights: w, names: make([]string, len(docs)), categories: make([]string, len(docs))}
	for i, d := range docs {
		x.names[i], x.categories[i] = strings.ToLower(d.Name), strings.ToLower(d.Category)
	}
	var beside sync.WaitGroup
	beside.Go(func() { x.containment = newContainment(docs) })
	b := newBuilder(docs, &x.dictionary)
	b.weights = w.fields
	b.addCompounds()
	x.ranking = b.ranking(docs)
	beside.Wait()
	x.finish()
	return x
}

// finish sets what follows from the rest of the index.
func (x *Index) finish() {
	x.dictionary.finish(&x.ranking)
	x.unknownIDF = idf(len(x.names), 1, idfPower)
	x.scratch.New = func() any { return newScratch(x) }
}

// maxQuery is the limit of a query in bytes; the rest is ignored.
const maxQuery = 2000

// Search returns the tools that contain the text in their name, description, functions or
// use cases, ignoring case, and those whose score for words is at least a fifth of the
// best score. Hits are sorted by rank. An empty text matches all tools of the category, in
// the order of the docs.
func (x *Index) Search(q Query) Hits {
	if q.Limit <= 0 {
		q.Limit = 10
	}
	q.Category = strings.ToLower(strings.TrimSpace(q.Category))
	q.Text = strings.ReplaceAll(strings.ToValidUTF8(truncate(q.Text, maxQuery), " "), separator, " ")
	q.Text = strings.TrimSpace(q.Text)
	if q.Text == "" {
		return x.list(q)
	}
	if q.Similarities != nil {
		return x.searchCombined(q)
	}
	s := x.scratch.Get().(*scratch)
	defer x.scratch.Put(s)
	return x.rank(q, s)
}

func truncate(text string, n int) string {
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

// in reports whether a tool belongs to the category, which is in lower case.
func (x *Index) in(doc int, category string) bool {
	return category == "" || x.categories[doc] == category
}

// compareHits orders hits by descending score, then by position in the docs.
func compareHits(a, b Hit) int {
	switch {
	case a.Score > b.Score:
		return -1
	case a.Score < b.Score:
		return 1
	}
	return cmp.Compare(a.Doc, b.Doc)
}

// best sorts hits in place and returns the first n.
func best(hits []Hit, n int) []Hit {
	slices.SortFunc(hits, compareHits)
	return hits[:min(n, len(hits))]
}
