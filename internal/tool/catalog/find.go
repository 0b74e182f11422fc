package catalog

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

// finder finds tools by a query.
type finder struct {
	*entries
	search   func() *search.Index
	space    Space               // nil without a model
	kept     []int               // positions of the tools in the snapshot that this is a part of; nil if it is complete
	listings map[string]*listing // by server, if all its tools are part of the snapshot; nil if some may be missing
	stored   func() storedIndex  // an index that may be that of the snapshot; nil if there is none
	isStored atomic.Bool         // the search index is in Config.Derived
}

// index reads or builds the search index; the first search waits for it.
func (f *finder) index() *search.Index {
	if f.stored != nil {
		stored := f.stored()
		if f.stored = nil; stored.index != nil && stored.key == f.indexKey() {
			f.isStored.Store(true)
			return stored.index
		}
	}
	docs := make([]search.Doc, len(f.Tools))
	var g errgroup.Group
	n := max(len(docs)/runtime.GOMAXPROCS(0), 100)
	for start := 0; start < len(docs); start += n {
		g.Go(func() error {
			for i := start; i < min(start+n, len(docs)); i++ {
				docs[i] = f.Doc(f.Tools[i])
				docs[i].Params = codegen.ArgumentNames(f.Tools[i].Input)
			}
			return nil
		})
	}
	g.Wait()
	return search.New(docs)
}

// indexKey identifies all that the index of a complete snapshot is made of: the program, the listings and what
// the configuration says of their servers, and tools of static catalogs.
func (f *finder) indexKey() [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", codegen.ProgramID())
	for _, v := range f.Servers {
		fmt.Fprintf(h, "%q %q %v", v.Name, v.Category, v.Connected)
		if l := f.listings[v.Name]; l != nil {
			fmt.Fprintf(h, " %x", l.file.sum)
		}
		fmt.Fprintln(h)
	}
	for _, t := range f.Tools {
		if !t.Connected || len(t.Functions)+len(t.UseCases) > 0 {
			fmt.Fprintf(h, "%q %q %q %q\n", []string{t.Server, t.Definition.Tool, t.Category, t.Description}, t.Input, t.Functions,
				t.UseCases)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Embedder finds tools by their meaning, with an embedding model.
type Embedder interface {
	// NewSpace returns a space of texts, one for each tool, and fills it in the background.
	NewSpace(texts func() []string) Space
}

// Space has the meanings of the tools of one snapshot.
type Space interface {
	// Similarities returns the similarity of the tools to a query; nil if it is not known in time. If only is
	// not nil, its positions are the tools.
	Similarities(ctx context.Context, text string, only []int) search.Similarities
}

// embeddingTexts returns the text of each tool for the embedding model.
func (f *finder) embeddingTexts() []string {
	texts := make([]string, len(f.Tools))
	for i, t := range f.Tools {
		texts[i] = f.Doc(t).EmbeddingText()
	}
	return texts
}

// Search returns the best matches of a query by keywords, and the total number of matches.
// An empty query with a category lists the category. Quarantined tools are found by
// their trusted definition.
func (f *finder) Search(query, category string, most int) (found []Tool, total int) {
	ranked, total := f.find(search.Query{Text: query, Category: category, Limit: most})
	for _, r := range ranked {
		found = append(found, r.Tool)
	}
	return found, total
}

// Query is a search of SearchFor.
type Query struct {
	Text, Category string
	Limit          int
	Embeddings     bool         // add matches by similarity, if the embedding model responds in time
	Uses           *search.Uses // tools that rank higher because they were used; nil means none
}

// SearchFor is Search with embeddings and records of use.
func (f *finder) SearchFor(ctx context.Context, query Query) (found []Ranked, total int) {
	q := search.Query{Text: query.Text, Category: query.Category, Limit: query.Limit, Boosts: f.boosts(query)}
	if query.Embeddings && f.space != nil && strings.TrimSpace(query.Text) != "" {
		q.Similarities = f.space.Similarities(ctx, query.Text, f.kept)
	}
	return f.find(q)
}

// boosts returns what the tools gain from use.
func (f *finder) boosts(q Query) map[int]search.Boost {
	if q.Uses == nil {
		return nil
	}
	all := map[int]search.Boost{}
	f.search().Boosts(q.Uses, q.Text, func(server, name string, b search.Boost) {
		if i, ok := f.byRef[tool.Ref{Server: server, Tool: name}]; ok {
			all[i] = b
		}
	})
	return all
}

// Ranked is a tool with its score for a query. Scores of one answer are comparable; the best is
// about 1.
type Ranked struct {
	Tool
	Score float64
	Boost search.Boost // the part of Score that it gains from use
}

// Rank returns the callable tools that match a query best, with embeddings.
func (f *finder) Rank(ctx context.Context, query string, most int) (found []Ranked) {
	q := search.Query{Text: query, Limit: len(f.Tools)}
	if f.space != nil && strings.TrimSpace(query) != "" {
		q.Similarities = f.space.Similarities(ctx, query, f.kept)
	}
	for _, h := range f.search().Search(q).Found {
		if t := f.Tools[h.Doc]; t.Callable() && len(found) < most {
			found = append(found, Ranked{Tool: t, Score: h.Score})
		}
	}
	return found
}

func (f *finder) find(q search.Query) (found []Ranked, total int) {
	if len(f.Tools) == 0 { // an index, even of nothing, loads the lexicon
		return nil, 0
	}
	hits := f.search().Search(q)
	for _, h := range hits.Found {
		found = append(found, Ranked{f.Tools[h.Doc], h.Score, q.Boosts[h.Doc]})
	}
	return found, hits.Total
}

// Fits reports which of these tools have a word of the query that names a thing: see search.Index.Fits.
func (f *finder) Fits(query string, tools []tool.Ref) map[tool.Ref]bool {
	fits := map[tool.Ref]bool{}
	if len(tools) == 0 {
		return fits
	}
	docs := make([]int, len(tools))
	for i, ref := range tools {
		docs[i] = f.byRef[ref]
	}
	for i, fit := range f.search().Fits(query, docs) {
		fits[tools[i]] = fit
	}
	return fits
}
