package embedding

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// query is a text that was searched for. Its vector may come after the search
// that wanted it has gone on without: a model that has to be loaded first is
// ready for the next one.
type query struct {
	done   chan struct{}
	vector vector
	err    error
}

const (
	mostOpen     = 4   // queries at once without an answer; more are not asked
	mostQueries  = 500 // that are remembered
	longestQuery = 30 * time.Second
)

// ask returns the vector of a text. Those who ask for the same text share it.
func (x *Index) ask(ctx context.Context, text string) (vector, error) {
	q := x.query(text)
	if q == nil {
		return nil, fault.New(fault.Unavailable, "the embedding model has not answered earlier searches yet").
			WithHint("look at the endpoint of search.embeddings")
	}
	select {
	case <-q.done:
		return q.vector, q.err
	case <-ctx.Done():
	}
	if ctx.Err() == context.Canceled {
		return nil, context.Canceled
	}
	return nil, fault.New(fault.Unavailable, "the embedding model did not answer a search within %s", x.cfg.Timeout).
		WithHint("look at the endpoint, or let searches wait longer with search.embeddings.timeout")
}

// query returns the query of a text, nil if too many are open.
func (x *Index) query(text string) *query {
	k := keyOf(text)
	x.mu.Lock()
	defer x.mu.Unlock()
	if q, ok := x.queries[k]; ok {
		return q
	}
	if x.open >= mostOpen || x.life.Err() != nil {
		return nil
	}
	if len(x.queries) >= mostQueries {
		clear(x.queries) // those that are open answer who waits for them all the same
	}
	q := &query{done: make(chan struct{})}
	x.queries[k] = q
	x.open++
	x.work.Go(func() { x.answer(k, text, q) })
	return q
}

func (x *Index) answer(k key, text string, q *query) {
	ctx, cancel := context.WithTimeout(x.life, longestQuery)
	defer cancel()
	v, err := x.cfg.Model.EmbedOne(ctx, text)
	q.vector, q.err = v, err
	x.mu.Lock()
	defer x.mu.Unlock()
	close(q.done)
	x.open--
	if err != nil && x.queries[k] == q {
		delete(x.queries, k)
	}
}
