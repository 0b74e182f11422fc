package catalog

import (
	"github.com/sandpiper-mcp/sandpiper/internal/catalog/search"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// index makes what search needs; the first search waits for it.
func (s *Snapshot) index() *search.Index {
	docs := make([]search.Doc, len(s.Tools))
	for i, t := range s.Tools {
		v := s.Servers[s.servers[t.Server]]
		docs[i] = search.Doc{
			Name: t.Definition.Tool, Server: t.Server, Category: t.Category, Description: t.Description,
			ServerDescription: v.Title + " " + v.Instructions, Functions: t.Functions, UseCases: t.UseCases,
		}
		for _, p := range schema.Params(t.Input) {
			docs[i].Params = append(docs[i].Params, p.Name)
		}
	}
	return search.New(docs)
}

// Search returns the tools that fit a query best, and how many match at all. An
// empty query with a category lists that. Tools that are held are not found by
// their new words, since those are not here.
func (s *Snapshot) Search(query, category string, most int) (found []Tool, total int) {
	hits := s.search().Search(search.Query{Text: query, Category: category, Limit: most})
	for _, h := range hits.Found {
		found = append(found, s.Tools[h.Doc])
	}
	return found, hits.Total
}
