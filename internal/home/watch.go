package home

import (
	"maps"
	"os"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// watchEvery bounds how long another process uses the home of a suspended tenant.
const watchEvery = time.Second

// announce changes the modification time of the file that watch observes.
func (l layout) announce() error { return durable.WriteFile(l.suspensions(), nil) }

// Watch observes suspensions in the background, also by other processes, deletes expired answers, and
// closes unused homes while descriptors are short, until Close. It calls end for each suspended tenant with an open
// home; end must end all uses of that home. Close
// waits for it.
func (t *Homes) Watch(end func(tenant.ID)) {
	t.tasks.Go(func() { t.watch(end) })
	t.tasks.Go(t.sweepStreams)
}

func (t *Homes) watch(end func(tenant.ID)) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var last time.Time
	for {
		select {
		case <-t.stop:
			return
		case <-tick.C:
		}
		closeIdleIfShort(&t.pool)
		trimUnused(&t.pool, time.Now().Add(-trimAfter))
		fi, err := os.Lstat(t.layout.suspensions())
		if err != nil || fi.ModTime().Equal(last) {
			continue
		}
		last = fi.ModTime()
		for _, id := range t.retireSuspended() {
			t.tasks.Go(func() { end(id) })
		}
	}
}

// retireSuspended closes the homes of suspended tenants: unused ones at once, others when they
// are released. It returns the tenants.
func (t *pool) retireSuspended() (ids []tenant.ID) {
	t.mu.Lock()
	open := make([]*shared, 0, len(t.homes))
	for _, s := range t.homes {
		open = append(open, s)
	}
	open = slices.AppendSeq(open, maps.Keys(t.retired)) // as after a reload: executions use them
	t.mu.Unlock()
	open = slices.DeleteFunc(open, func(s *shared) bool {
		sus, err := t.layout.of(s.id).suspension()
		return err != nil || sus == nil
	})
	for _, s := range open {
		if err := t.retire(s); err != nil {
			t.cfg.Log.Warn("close home", "tenant", s.id.String(), "error", err)
		}
		if !slices.Contains(ids, s.id) {
			ids = append(ids, s.id)
		}
	}
	return ids
}

// Reopen makes the next Acquire of every tenant open its home again, with its current settings.
// Homes in use keep theirs until they are released.
func (t *pool) Reopen() error {
	t.mu.Lock()
	for _, s := range t.homes {
		t.retired[s] = s.users > 0
	}
	maps.DeleteFunc(t.retired, func(_ *shared, used bool) bool { return !used })
	clear(t.homes)
	unused := t.evict(0)
	t.mu.Unlock()
	return closeAll(unused)
}

// retire removes a home, so that the next Acquire opens it again, and closes it if it is unused.
func (t *pool) retire(s *shared) error {
	t.mu.Lock()
	if t.homes[s.id] == s {
		delete(t.homes, s.id)
	}
	if s.users > 0 {
		t.retired[s] = true
	}
	unused := s.idle != nil
	notIdle(t, s)
	t.mu.Unlock()
	if unused {
		return s.parts.close()
	}
	return nil
}
