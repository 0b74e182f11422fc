package vault

import (
	"context"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// database is the tenant's database, with one write transaction of this process at a time.
type database struct {
	*store.DB
	writeLock mutex
}

// update runs one write transaction at a time: SQLite lets concurrent writers sleep
// and retry.
func (d *database) update(ctx context.Context, f func(*store.Tx) error) error {
	if err := d.writeLock.lock(ctx); err != nil {
		return err
	}
	defer d.writeLock.unlock()
	return d.Update(ctx, f)
}

// mutex is a lock that can be waited for with a context.
type mutex chan struct{}

func (m mutex) lock(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m mutex) unlock() { <-m }

// interval is the time since something was last done.
type interval struct {
	mu   sync.Mutex
	last time.Time
}

// begin reports whether every has passed since the last time, and if so begins anew.
func (i *interval) begin(now time.Time, every time.Duration) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if since := now.Sub(i.last); since >= 0 && since < every {
		return false
	}
	i.last = now
	return true
}
