package catalog

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

// index reads or builds the search index; the first search waits for it.
func (s *Snapshot) index() *search.Index {
	if s.stored != nil {
		stored := s.stored()
		if s.stored = nil; stored.index != nil && stored.key == indexKey(s) {
			s.isStored.Store(true)
			return stored.index
		}
	}
	docs := make([]search.Doc, len(s.Tools))
	var g errgroup.Group
	n := max(len(docs)/runtime.GOMAXPROCS(0), 100)
	for start := 0; start < len(docs); start += n {
		g.Go(func() error {
			for i := start; i < min(start+n, len(docs)); i++ {
				docs[i] = s.Doc(s.Tools[i])
				docs[i].Params = codegen.ArgumentNames(s.Tools[i].Input)
			}
			return nil
		})
	}
	g.Wait()
	return search.New(docs)
}

// indexKey identifies all that the index of a complete snapshot is made of: the program, the listings and what
// the configuration says of their servers, and tools of static catalogs.
func indexKey(s *Snapshot) [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", codegen.ProgramID())
	for _, v := range s.Servers {
		fmt.Fprintf(h, "%q %q %v", v.Name, v.Category, v.Connected)
		if l := s.listings[v.Name]; l != nil {
			fmt.Fprintf(h, " %x", l.file.sum)
		}
		fmt.Fprintln(h)
	}
	for _, t := range s.Tools {
		if !t.Connected || len(t.Functions)+len(t.UseCases) > 0 {
			fmt.Fprintf(h, "%q %q %q %q\n", []string{t.Server, t.Definition.Tool, t.Category, t.Description}, t.Input, t.Functions, t.UseCases)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Doc returns the search document of a tool without its parameters.
func (s *Snapshot) Doc(t Tool) search.Doc {
	v := s.Servers[s.servers[t.Server]]
	return search.Doc{
		Name: t.Definition.Tool, Server: t.Server, Category: t.Category, Description: t.Description,
		ServerDescription: v.Title + " " + v.Instructions, Functions: t.Functions, UseCases: t.UseCases,
	}
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
func (s *Snapshot) embeddingTexts() []string {
	texts := make([]string, len(s.Tools))
	for i, t := range s.Tools {
		texts[i] = s.Doc(t).EmbeddingText()
	}
	return texts
}

// Search returns the best matches of a query by keywords, and the total number of matches.
// An empty query with a category lists the category. Quarantined tools are found by
// their trusted definition.
func (s *Snapshot) Search(query, category string, most int) (found []Tool, total int) {
	ranked, total := s.find(search.Query{Text: query, Category: category, Limit: most})
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
func (s *Snapshot) SearchFor(ctx context.Context, query Query) (found []Ranked, total int) {
	q := search.Query{Text: query.Text, Category: query.Category, Limit: query.Limit, Boosts: s.boosts(query)}
	if query.Embeddings && s.space != nil && strings.TrimSpace(query.Text) != "" {
		q.Similarities = s.space.Similarities(ctx, query.Text, s.kept)
	}
	return s.find(q)
}

// boosts returns what the tools of s gain from use.
func (s *Snapshot) boosts(q Query) map[int]search.Boost {
	if q.Uses == nil {
		return nil
	}
	all := map[int]search.Boost{}
	s.search().Boosts(q.Uses, q.Text, func(server, name string, b search.Boost) {
		if i, ok := s.byRef[tool.Ref{Server: server, Tool: name}]; ok {
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
func (s *Snapshot) Rank(ctx context.Context, query string, most int) (found []Ranked) {
	q := search.Query{Text: query, Limit: len(s.Tools)}
	if s.space != nil && strings.TrimSpace(query) != "" {
		q.Similarities = s.space.Similarities(ctx, query, s.kept)
	}
	for _, h := range s.search().Search(q).Found {
		if t := s.Tools[h.Doc]; t.Callable() && len(found) < most {
			found = append(found, Ranked{Tool: t, Score: h.Score})
		}
	}
	return found
}

func (s *Snapshot) find(q search.Query) (found []Ranked, total int) {
	if len(s.Tools) == 0 { // an index, even of nothing, loads the lexicon
		return nil, 0
	}
	hits := s.search().Search(q)
	for _, h := range hits.Found {
		found = append(found, Ranked{s.Tools[h.Doc], h.Score, q.Boosts[h.Doc]})
	}
	return found, hits.Total
}

// Fits reports which of these tools have a word of the query that names a thing: see search.Index.Fits.
func Fits(s *Snapshot, query string, tools []tool.Ref) map[tool.Ref]bool {
	fits := map[tool.Ref]bool{}
	if len(tools) == 0 {
		return fits
	}
	docs := make([]int, len(tools))
	for i, ref := range tools {
		docs[i] = s.byRef[ref]
	}
	for i, fit := range s.search().Fits(query, docs) {
		fits[tools[i]] = fit
	}
	return fits
}
