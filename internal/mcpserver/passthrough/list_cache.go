package passthrough

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// listCache caches the last lists of one kind.
type listCache[T any] struct {
	wait time.Duration
	ask  func(ctx context.Context, server string) ([]T, error)
	life context.Context // ends with close
	end  context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	asking  map[string]*asking
	known   map[string][]T // by server
	changes uint64         // answers after their callers gave up
}

// asking is one request to a server, shared by all callers.
type asking struct {
	done chan struct{}
	late bool // a caller gave up
}

func newListCache[T any](wait time.Duration, ask func(context.Context, string) ([]T, error)) *listCache[T] {
	s := &listCache[T]{wait: wait, ask: ask, asking: map[string]*asking{}, known: map[string][]T{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

func (s *listCache[T]) close() {
	s.mu.Lock()
	s.end() // under the lock, so that no request starts afterwards
	s.mu.Unlock()
	s.work.Wait()
}

// news changes when a server has answered after its callers gave up.
func (s *listCache[T]) news() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// fresh requests the lists of servers and returns all lists. A server that fails or does
// not answer in time keeps its cached list.
func (s *listCache[T]) fresh(ctx context.Context, servers []string) map[string][]T {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	var all []*asking
	for _, name := range servers {
		all = append(all, s.begin(name))
	}
	for _, a := range all {
		select {
		case <-a.done:
		case <-ctx.Done():
			s.mu.Lock()
			a.late = true
			s.mu.Unlock()
		}
	}
	return s.cached(servers)
}

// cached returns the cached lists.
func (s *listCache[T]) cached(servers []string) map[string][]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := maps.Clone(s.known)
	maps.DeleteFunc(known, func(name string, _ []T) bool { return !slices.Contains(servers, name) })
	return known
}

// begin starts a request to a server, unless one is running.
func (s *listCache[T]) begin(server string) *asking {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.asking[server]; a != nil {
		return a
	}
	a := &asking{done: make(chan struct{})}
	if s.life.Err() != nil {
		close(a.done)
		return a
	}
	s.asking[server] = a
	s.work.Go(func() {
		list, err := s.ask(s.life, server)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.asking, server)
		if err == nil {
			s.known[server] = list
			if a.late {
				s.changes++
			}
		}
		close(a.done)
	})
	return a
}
