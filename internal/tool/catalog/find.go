package catalog

import (
	"context"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// index builds the search index; the first search waits for it.
func (s *Snapshot) index() *search.Index {
	docs := make([]search.Doc, len(s.Tools))
	for i, t := range s.Tools {
		docs[i] = s.Doc(t)
		for _, p := range schema.Params(t.Input) {
			docs[i].Params = append(docs[i].Params, p.Name)
		}
	}
	return search.New(docs)
}

// Doc returns the search document of a tool without its parameters.
func (s *Snapshot) Doc(t Tool) search.Doc {
	v := s.Servers[s.servers[t.Server]]
	return search.Doc{
		Name: t.Definition.Tool, Server: t.Server, Category: t.Category, Description: t.Description,
		ServerDescription: v.Title + " " + v.Instructions, Functions: t.Functions, UseCases: t.UseCases,
	}
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
	return s.find(search.Query{Text: query, Category: category, Limit: most})
}

// SearchWithEmbeddings adds matches by similarity to those of Search if the embedding
// model responds in time.
func (s *Snapshot) SearchWithEmbeddings(ctx context.Context, query, category string, most int) (found []Tool, total int) {
	q := search.Query{Text: query, Category: category, Limit: most}
	if s.space != nil && strings.TrimSpace(query) != "" {
		q.Similarities = s.space.Similarities(ctx, query, s.kept)
	}
	return s.find(q)
}

// Ranked is a tool with its score for a query. Scores of one answer are comparable; the best is
// about 1.
type Ranked struct {
	Tool
	Score float64
}

// Rank returns the callable tools that match a query best, like SearchWithEmbeddings.
func (s *Snapshot) Rank(ctx context.Context, query string, most int) (found []Ranked) {
	q := search.Query{Text: query, Limit: len(s.Tools)}
	if s.space != nil && strings.TrimSpace(query) != "" {
		q.Similarities = s.space.Similarities(ctx, query, s.kept)
	}
	for _, h := range s.search().Search(q).Found {
		if t := s.Tools[h.Doc]; t.Callable() && len(found) < most {
			found = append(found, Ranked{t, h.Score})
		}
	}
	return found
}

func (s *Snapshot) find(q search.Query) (found []Tool, total int) {
	hits := s.search().Search(q)
	for _, h := range hits.Found {
		found = append(found, s.Tools[h.Doc])
	}
	return found, hits.Total
}
