package catalog

import (
	"context"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// index makes what search needs; the first search waits for it.
func (s *Snapshot) index() *search.Index {
	docs := make([]search.Doc, len(s.Tools))
	for i, t := range s.Tools {
		docs[i] = s.doc(t)
		for _, p := range schema.Params(t.Input) {
			docs[i].Params = append(docs[i].Params, p.Name)
		}
	}
	return search.New(docs)
}

// doc is what is known of a tool but its parameters.
func (s *Snapshot) doc(t Tool) search.Doc {
	v := s.Servers[s.servers[t.Server]]
	return search.Doc{
		Name: t.Definition.Tool, Server: t.Server, Category: t.Category, Description: t.Description,
		ServerDescription: v.Title + " " + v.Instructions, Functions: t.Functions, UseCases: t.UseCases,
	}
}

// said is what each tool says to a model.
func (s *Snapshot) said() []string {
	texts := make([]string, len(s.Tools))
	for i, t := range s.Tools {
		texts[i] = s.doc(t).EmbeddingText()
	}
	return texts
}

// Search returns the tools that fit a query best, and how many match at all. An
// empty query with a category lists that. Tools that are held are not found by
// their new words, since those are not here.
func (s *Snapshot) Search(query, category string, most int) (found []Tool, total int) {
	return s.find(search.Query{Text: query, Category: category, Limit: most})
}

// SearchWithEmbeddings searches as Search does, and with a model that answers in time by
// meaning as well.
func (s *Snapshot) SearchWithEmbeddings(ctx context.Context, query, category string, most int) (found []Tool, total int) {
	q := search.Query{Text: query, Category: category, Limit: most}
	if s.space != nil && strings.TrimSpace(query) != "" {
		q.Similarities = s.space.Similarities(ctx, query)
	}
	return s.find(q)
}

func (s *Snapshot) find(q search.Query) (found []Tool, total int) {
	hits := s.search().Search(q)
	for _, h := range hits.Found {
		found = append(found, s.Tools[h.Doc])
	}
	return found, hits.Total
}
