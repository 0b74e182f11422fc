package vectors

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// query is the request for the vector of one search text. The vector may arrive after
// the search has timed out, for example while a model loads; the next search for the
// text uses it.
type query struct {
	done   chan struct{}
	vector vector
	err    error
}

const (
	maxOpenQueries   = 4   // concurrent queries without a result; further ones fail
	maxCachedQueries = 500 // cached
	queryTimeout     = 30 * time.Second
)

// queryVector returns the vector of a text. Concurrent calls for one text share a request.
func (x *Index) queryVector(ctx context.Context, text string) (vector, error) {
	q := x.query(text)
	if q == nil {
		return nil, fault.New(fault.Unavailable, "the embedding model has not responded to earlier searches yet").
			WithHint("%s", x.slowHint())
	}
	select {
	case <-q.done:
		return q.vector, q.err
	case <-ctx.Done():
	}
	if ctx.Err() == context.Canceled {
		return nil, context.Canceled
	}
	return nil, fault.New(fault.Unavailable, "the embedding model did not respond to a search within %s", x.cfg.Timeout).
		WithHint("%s", x.slowHint())
}

// slowHint is the remedy if the model is slow.
func (x *Index) slowHint() string {
	if x.Local() {
		return "increase search.embeddings.timeout; the processor is busy"
	}
	return "check the endpoint, or increase search.embeddings.timeout"
}

// query returns the query of a text; nil if too many are open.
func (x *Index) query(text string) *query {
	k := keyOf(text)
	x.mu.Lock()
	defer x.mu.Unlock()
	if q, ok := x.queries[k]; ok {
		return q
	}
	if x.open >= maxOpenQueries || x.closed {
		return nil
	}
	if len(x.queries) >= maxCachedQueries {
		clear(x.queries) // open ones still reach their waiters
	}
	q := &query{done: make(chan struct{})}
	x.queries[k] = q
	x.open++
	x.spawn(func(ctx context.Context) { x.answer(ctx, k, text, q) })
	return q
}

func (x *Index) answer(ctx context.Context, k key, text string, q *query) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
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
