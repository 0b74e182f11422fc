package vectors

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
)

// Space holds the vectors of the tools of one catalog.
type Space struct {
	x     *Index
	texts func() []string
	read  chan struct{} // closed when the stored vectors are loaded
	of    atomic.Pointer[[]vector]
}

// NewSpace creates a space of texts, one for each tool, and fills it in the
// background. It stops filling the previous space.
func (x *Index) NewSpace(texts func() []string) catalog.Space {
	s := &Space{x: x, texts: texts, read: make(chan struct{})}
	x.mu.Lock()
	old := x.now
	x.now = s
	x.mu.Unlock()
	if old != nil {
		old.abandon()
	}
	x.wake()
	return s
}

func (x *Index) wake() {
	select {
	case x.more <- struct{}{}:
	default:
	}
}

// publish replaces the vectors; the caller does not change them afterwards.
func (s *Space) publish(of []vector) {
	if s.of.Swap(&of) == nil {
		close(s.read)
	}
}

// abandon unblocks waiters of a space that will not be filled.
func (s *Space) abandon() {
	if s.of.CompareAndSwap(nil, new([]vector)) {
		close(s.read)
	}
}

func (x *Index) latest(s *Space) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.now == s
}

func (s *Space) size() (tools, known int) {
	of := *s.of.Load()
	for _, v := range of {
		if v != nil {
			known++
		}
	}
	return len(of), known
}

// Similarities returns the similarity of the tools to a query; nil if there is no vector in
// time. If only is not nil, its positions are the tools.
func (s *Space) Similarities(ctx context.Context, text string, only []int) search.Similarities {
	ctx, cancel := context.WithTimeout(ctx, s.x.cfg.Timeout)
	defer cancel()
	result, err := s.similarities(ctx, text, only)
	s.x.record(embeddingQuery, err)
	if result == nil {
		return nil
	}
	return result
}

func (s *Space) similarities(ctx context.Context, text string, only []int) (*Similarities, error) {
	select {
	case <-s.read:
	case <-ctx.Done():
		return nil, context.Canceled // the disk is slow, not the model
	}
	of := *s.of.Load()
	if only != nil {
		all := of
		of = make([]vector, len(only))
		for i, n := range only {
			if n < len(all) { // there are none in an abandoned space
				of[i] = all[n]
			}
		}
	}
	i := slices.IndexFunc(of, func(v vector) bool { return v != nil })
	if i < 0 {
		return nil, nil // no tool has a vector
	}
	q, err := s.x.queryVector(ctx, text)
	if err != nil {
		return nil, err
	}
	if len(of[i]) != len(q) { // all tools have the same dimensions
		s.x.wake()
		return nil, fault.New(fault.Unavailable, "the embedding model returned a vector of %d dimensions; those of tools have %d", len(q),
			len(of[i])).
			WithHint("the model of this name seems to have changed; all vectors are created again")
	}
	return newSimilarities(q, of), nil
}
