package home

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

const (
	// idleDescriptors is the number of descriptors of an unused home: the database, its log, the index
	// of that, and the lock; and the database again if two transactions ran at the same time, because
	// SQLite closes no descriptor of a file that has locks. A log of calls has two more until trimAfter.
	idleDescriptors = 5
	// idleMemory is an estimate of the bytes of an unused home that was used lately.
	idleMemory = 512 << 10
	// trimAfter is how long a home is unused before its database is closed, which stays in memory until then:
	// the next use takes some milliseconds longer.
	trimAfter = 30 * time.Second
)

// unusedHomes returns the number of unused homes that take a quarter of the descriptors, or a sixteenth
// of the memory.
func unusedHomes(descriptors int, memory int64) int {
	return int(min(int64(descriptors/4/idleDescriptors), memory/16/idleMemory))
}

// notIdle removes a home from the unused ones. The caller holds the lock.
func notIdle(t *pool, s *shared) {
	if s.idle != nil {
		t.idle.Remove(s.idle)
		s.idle = nil
	}
}

// trimUnused closes the databases of the homes that became idle before a time.
func trimUnused(t *pool, before time.Time) {
	t.mu.Lock()
	var out []*shared
	for e := t.idle.Front(); e != nil && e.Value.(*shared).released.Before(before); e = e.Next() {
		out = append(out, e.Value.(*shared))
	}
	t.mu.Unlock()
	for _, s := range out {
		if err := trim(context.Background(), s.parts); err != nil {
			t.cfg.Log.Warn("close the database of an unused home", "tenant", s.id.String(), "error", err)
		}
	}
}

// trim closes the database of a home, and removes the logs next to it.
func trim(ctx context.Context, r *parts) error {
	return errors.Join(journal.Trim(ctx, r.journal), session.Trim(ctx, r.sessions), store.Trim(r.db))
}

// evict removes and returns all idle homes but the most recent ones. The caller holds the lock
// and closes them after releasing it.
func (t *pool) evict(keep int) []*shared {
	var out []*shared
	for t.idle.Len() > keep {
		s := t.idle.Front().Value.(*shared)
		notIdle(t, s)
		delete(t.homes, s.id)
		out = append(out, s)
	}
	return out
}

// shortBatch is how many homes closeIdleIfShort closes, so that its caller does not wait for thousands.
const shortBatch = 64

// closeIdleIfShort closes the homes that are unused for longest if few descriptors are free: a home
// that is open keeps some, and other parts of the process need them too.
func closeIdleIfShort(t *pool) {
	if !descriptorsShort() {
		return
	}
	t.mu.Lock()
	out := t.evict(max(0, t.idle.Len()-shortBatch))
	t.mu.Unlock()
	if err := closeAll(out); err != nil {
		t.cfg.Log.Warn("close unused homes", "error", err)
	}
}

// closeAll closes homes, some at the same time because each may wait for the disk.
func closeAll(all []*shared) error {
	errs := make([]error, len(all))
	var g errgroup.Group
	g.SetLimit(8)
	for i, s := range all {
		g.Go(func() error {
			errs[i] = s.parts.close()
			return nil
		})
	}
	return errors.Join(append(errs, g.Wait())...)
}
