package passthrough

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// listCache caches the last lists of one kind.
type listCache[T any] struct {
	of      capability
	list    func(*upstream.Set, context.Context, string) ([]T, error)
	servers *upstream.Set
	wait    time.Duration

	end   context.CancelFunc            // ends the context of the goroutines of work
	spawn func(f func(context.Context)) // runs f in a goroutine of work
	work  sync.WaitGroup

	mu      sync.Mutex
	asking  map[string]*asking
	known   map[string][]T // by server
	changes uint64         // answers after their callers gave up
	closed  bool
}

// asking is one request to a server, shared by all callers.
type asking struct {
	done chan struct{}
	late bool // a caller gave up
}

func newListCache[T any](cfg Config, of capability, list func(*upstream.Set, context.Context, string) ([]T, error)) *listCache[T] {
	s := &listCache[T]{
		of:      of,
		list:    list,
		servers: cfg.Servers,
		wait:    cfg.Wait,
		asking:  map[string]*asking{},
		known:   map[string][]T{},
	}
	ctx, end := context.WithCancel(context.Background())
	s.end, s.spawn = end, func(f func(context.Context)) { s.work.Go(func() { f(ctx) }) }
	return s
}

func (s *listCache[T]) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
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
	if s.closed {
		close(a.done)
		return a
	}
	s.asking[server] = a
	s.spawn(func(ctx context.Context) {
		list, err := s.list(s.servers, ctx, server)
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
