package vault

import (
	"context"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/known"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Index finds values in text: those stored in the vault, and those only seen by
// this process. Most vaults are small, so memory is allocated when it is needed.
type Index struct {
	records *records
	most    int // values that are stored

	mu           sync.RWMutex
	stored, seen *known.Index // nil while empty
	capacity     int          // values that stored has room for
	read         int          // values added to stored
	lastRecord   int64        // number of the last record read
	refreshed    time.Time
}

const (
	// maxSeen limits the values that are indexed but not stored. Stored values are always
	// indexed.
	maxSeen = 100_000
	// minCapacity is the least capacity; a full index is read again with one larger by the factor
	// capacityGrowth.
	minCapacity    = 4096
	capacityGrowth = 8
	// refreshEvery is how long values of other processes may be missing.
	refreshEvery = time.Second
)

// Refresh makes Find return the stored values. It reads all of them the first
// time, and later the new ones, at most once per second.
func (x *Index) Refresh(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.records.now()
	if !x.refreshed.IsZero() && now.Sub(x.refreshed) < refreshEvery {
		return nil
	}
	if x.refreshed.IsZero() {
		if err := x.size(ctx); err != nil {
			return err
		}
	}
	if err := x.load(ctx); err != nil {
		return err
	}
	for x.read > x.capacity && x.capacity < x.most {
		x.grow(x.read, x.most)
		x.read, x.lastRecord, x.stored = 0, 0, nil
		if err := x.load(ctx); err != nil {
			return err
		}
	}
	x.refreshed = now
	return nil
}

// size sets the capacity to that of the values stored, so that they are read once only.
func (x *Index) size(ctx context.Context) error {
	return x.records.db.View(ctx, func(tx *store.Tx) error {
		c, err := readCounts(ctx, tx, x.records.now())
		if err == nil {
			x.grow(c[countRecords].n, x.most)
		}
		return err
	})
}

// grow sets the capacity to one of at least n, and at most the limit.
func (x *Index) grow(n, most int) {
	x.capacity = min(max(x.capacity, minCapacity), most)
	for x.capacity < n && x.capacity < most {
		x.capacity = min(capacityGrowth*x.capacity, most)
	}
}

// load reads new records. The caller holds the lock.
func (x *Index) load(ctx context.Context) (err error) {
	x.lastRecord, err = x.records.each(ctx, x.lastRecord, func(value Value) {
		if x.stored == nil {
			x.stored = known.New(known.MaxForms * x.capacity)
		}
		x.read++
		x.stored.Add(value.Type, value.Text)
	})
	return err
}

// Add makes Find return values without storing them.
func (x *Index) Add(values []Value) {
	if len(values) == 0 {
		return
	}
	x.mu.Lock()
	if x.seen == nil {
		x.seen = known.New(maxSeen)
	}
	seen := x.seen
	x.mu.Unlock()
	for _, value := range values {
		seen.Add(value.Type, value.Text)
	}
}

// Find returns the positions of values in a text that are stored, as of the last
// Refresh, or were passed to Add.
func (x *Index) Find(text string) []detect.Finding {
	return x.find(text, func(k *known.Index) []detect.Finding { return k.Find(text) })
}

// FindSqueezed is Find for a text whose gaps were removed at the given positions.
func (x *Index) FindSqueezed(text string, gaps []int) []detect.Finding {
	return x.find(text, func(k *known.Index) []detect.Finding { return k.FindSqueezed(text, gaps) })
}

// Joined returns FindSqueezed for values of several words only, or nil if none are known.
func (x *Index) Joined() func(text string, gaps []int) []detect.Finding {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if (x.stored == nil || !x.stored.HasJoined()) && (x.seen == nil || !x.seen.HasJoined()) {
		return nil
	}
	return func(text string, gaps []int) []detect.Finding {
		return x.find(text, func(k *known.Index) []detect.Finding { return k.FindJoined(text, gaps) })
	}
}

func (x *Index) find(text string, in func(*known.Index) []detect.Finding) []detect.Finding {
	x.mu.RLock()
	kept, seen := x.stored, x.seen
	x.mu.RUnlock()
	switch {
	case kept == nil && seen == nil:
		return nil
	case kept == nil:
		return in(seen)
	case seen == nil:
		return in(kept)
	}
	return detect.Resolve(append(in(kept), in(seen)...), text)
}

// clear removes all values.
func (x *Index) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stored, x.seen, x.read, x.lastRecord, x.refreshed = nil, nil, 0, 0, time.Time{}
}
