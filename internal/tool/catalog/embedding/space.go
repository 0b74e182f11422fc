package embedding

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Space is the vectors of the tools of one catalog.
type Space struct {
	x     *Index
	texts func() []string
	read  chan struct{} // closed when the vectors that were kept are there
	of    atomic.Pointer[[]vector]
}

// NewSpace makes a space of texts, one of each tool, which are asked for in the
// background. What an older one still lacks is not asked for any more.
func (x *Index) NewSpace(texts func() []string) *Space {
	s := &Space{x: x, texts: texts, read: make(chan struct{})}
	x.mu.Lock()
	old := x.now
	x.now = s
	x.mu.Unlock()
	if old != nil {
		old.leave()
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

// publish shows vectors, which do not change any more.
func (s *Space) publish(of []vector) {
	if s.of.Swap(&of) == nil {
		close(s.read)
	}
}

// leave lets nobody wait for a space that may not be filled any more.
func (s *Space) leave() {
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

// Similarities says how near the tools are to a query; nil if that cannot be said in
// time.
func (s *Space) Similarities(ctx context.Context, text string) *Similarities {
	ctx, cancel := context.WithTimeout(ctx, s.x.cfg.Timeout)
	defer cancel()
	near, err := s.near(ctx, text)
	s.x.note(searching, err)
	return near
}

func (s *Space) near(ctx context.Context, text string) (*Similarities, error) {
	select {
	case <-s.read:
	case <-ctx.Done():
		return nil, context.Canceled // the disk is slow, not the model
	}
	of := *s.of.Load()
	i := slices.IndexFunc(of, func(v vector) bool { return v != nil })
	if i < 0 {
		return nil, nil // nothing to be near to
	}
	q, err := s.x.ask(ctx, text)
	if err != nil {
		return nil, err
	}
	if len(of[i]) != len(q) { // all have as many
		s.x.wake()
		return nil, fault.New(fault.Unavailable, "the embedding model answered a vector of %d numbers where those of tools have %d", len(q), len(of[i])).
			WithHint("another model seems to answer to the same name; all vectors are made anew")
	}
	return newSimilarities(q, of), nil
}
