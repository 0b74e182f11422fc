package skill

import (
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// Query is a search for skills.
type Query struct {
	Text  string   // words about the purpose, or part of a name; "" means all skills
	Tags  []string // that a skill must have, in any case
	Limit int      // maximum number of skills; 0 means no limit
}

// Search returns the skills that match, best first, or by name without a text.
func (s *Store) Search(ctx context.Context, q Query) ([]Metadata, error) {
	all, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m Metadata) bool { return !m.hasTags(q.Tags) })
	if q.Limit <= 0 {
		q.Limit = max(len(all), 1)
	}
	if strings.TrimSpace(q.Text) == "" {
		return all[:min(len(all), q.Limit)], nil
	}
	docs := make([]search.Doc, len(all))
	for i, m := range all {
		docs[i] = search.Doc{Name: m.Name, Description: m.Description, UseCases: m.Tags}
		for _, t := range m.Tools {
			docs[i].Functions = append(docs[i].Functions, t.Tool)
		}
	}
	found := []Metadata{}
	for _, h := range search.New(docs).Search(search.Query{Text: q.Text, Limit: q.Limit}).Found {
		found = append(found, all[h.Doc])
	}
	return found, nil
}

func (m Metadata) hasTags(tags []string) bool {
	for _, want := range tags {
		if !slices.ContainsFunc(m.Tags, func(tag string) bool { return strings.EqualFold(tag, want) }) {
			return false
		}
	}
	return true
}
