package lookup

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// openTopics limits the topics that are searched at once: each may wait for an embedding model.
const openTopics = 4

// maxTopics limits the topics of one search.
const maxTopics = 12

// hits are the matches of one topic.
type hits struct {
	best  []match
	total int
	fits  []bool // by match: it has a word that names the topic
}

// searchTopics searches each topic of the query: the best match of each topic comes first, then the
// second ones, and so on. missing are the topics of which no match has a word.
func searchTopics(ctx context.Context, f *Finder, now *catalog.Snapshot, own []module, q Query) (best []match, total int, missing []string,
	err error) {
	topics := search.Topics(q.Text)
	if len(topics) > maxTopics {
		return nil, 0, nil, fault.New(fault.Invalid, "query has %d texts; at most %d are allowed", len(topics), maxTopics)
	}
	if len(topics) == 0 {
		topics = []search.Topic{{Name: q.Text, Text: q.Text}}
	}
	all := make([]hits, len(topics))
	var g errgroup.Group
	g.SetLimit(openTopics)
	for i, t := range topics {
		g.Go(func() error {
			one := q
			one.Text = t.Text
			all[i] = searchTopic(ctx, f, now, own, one)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, 0, nil, err
	}
	for i, h := range all {
		total += h.total
		if topics[i].Whole {
			continue
		}
		if len(h.best) > 0 && !slices.Contains(h.fits, true) || len(topics) > 1 && len(h.best) == 0 {
			missing = append(missing, shorten(topics[i].Name))
		}
	}
	if len(topics) == 1 {
		return all[0].best, total, missing, nil
	}
	best, twice := interleave(all, q.Limit)
	return best, total - twice, missing, nil
}

func searchTopic(ctx context.Context, f *Finder, now *catalog.Snapshot, own []module, q Query) (h hits) {
	semantic := f.cfg.Embeddings != nil && (!q.FromCode || f.cfg.Embeddings.Local())
	tools, total := now.SearchFor(ctx, catalog.Query{Text: q.Text, Category: q.Category, Limit: q.Limit, Uses: f.uses.Uses(ctx),
		Embeddings: semantic})
	best, matching := merge(now, tools, own, q)
	var refs []tool.Ref
	for _, m := range best {
		if m.module == nil {
			refs = append(refs, m.tool.Ref)
		}
	}
	f.uses.AddSearch(q.Text, refs)
	h = hits{best: best, total: total + matching, fits: make([]bool, len(best))}
	fits := now.Fits(q.Text, refs)
	for i, m := range best {
		// A model finds tools without the words of a query, and tools that were used after a similar search fit too.
		h.fits[i] = semantic || m.module != nil || m.tool.Boost.Words > 0 || fits[m.tool.Ref]
	}
	return h
}

// interleave returns the best match of each topic, then the second ones, and so on: those that have a
// word of their topic, at most half of them of one server after the best ones. twice is the number of
// matches that several topics have.
func interleave(all []hits, limit int) (best []match, twice int) {
	fitting, longest, found := make([][]match, len(all)), 0, map[tool.Ref]bool{}
	for t, h := range all {
		for i, m := range h.best {
			if found[m.ref()] {
				twice++
			}
			found[m.ref()] = true
			if h.fits[i] {
				fitting[t] = append(fitting[t], m)
			}
		}
		longest = max(longest, len(fitting[t]))
	}
	taken, servers := map[tool.Ref]bool{}, map[string]int{}
	for rank := range longest {
		for _, matches := range fitting {
			if rank >= len(matches) || len(best) == limit {
				continue
			}
			m := matches[rank]
			if ref := m.ref(); !taken[ref] && (rank == 0 || servers[ref.Server] < limit/2) {
				taken[ref] = true
				servers[ref.Server]++
				best = append(best, m)
			}
		}
	}
	return best, twice
}

// shorten returns the beginning of the name of a topic, for a hint.
func shorten(name string) string {
	const most = 40
	if r := []rune(name); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return name
}
