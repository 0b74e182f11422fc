package vault

import (
	"context"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/known"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// valueIndex finds values in text: those stored in the vault, and those only seen by
// this process. Most vaults are small, so memory is allocated when it is needed.
type valueIndex struct {
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

// RefreshIndex makes Find return the stored values. It reads all of them the first
// time, and later the new ones, at most once per second.
func (v *Vault) RefreshIndex(ctx context.Context) error {
	m := &v.index
	m.mu.Lock()
	defer m.mu.Unlock()
	now := v.cfg.Now()
	if !m.refreshed.IsZero() && now.Sub(m.refreshed) < refreshEvery {
		return nil
	}
	if m.refreshed.IsZero() {
		if err := sizeIndex(ctx, v); err != nil {
			return err
		}
	}
	if err := v.loadIndex(ctx); err != nil {
		return err
	}
	for m.read > m.capacity && m.capacity < v.cfg.MaxRecords {
		m.grow(m.read, v.cfg.MaxRecords)
		m.read, m.lastRecord, m.stored = 0, 0, nil
		if err := v.loadIndex(ctx); err != nil {
			return err
		}
	}
	m.refreshed = now
	return nil
}

// sizeIndex sets the capacity to that of the values stored, so that they are read once only.
func sizeIndex(ctx context.Context, v *Vault) error {
	return v.cfg.DB.View(ctx, func(tx *store.Tx) error {
		c, err := readCounts(ctx, tx, v.cfg.Now())
		if err == nil {
			v.index.grow(c[countRecords].n, v.cfg.MaxRecords)
		}
		return err
	})
}

// grow sets the capacity to one of at least n, and at most the limit.
func (m *valueIndex) grow(n, most int) {
	m.capacity = min(max(m.capacity, minCapacity), most)
	for m.capacity < n && m.capacity < most {
		m.capacity = min(capacityGrowth*m.capacity, most)
	}
}

// loadIndex reads new records. The caller holds the lock.
func (v *Vault) loadIndex(ctx context.Context) (err error) {
	m := &v.index
	m.lastRecord, err = v.Each(ctx, m.lastRecord, func(value Value) {
		if m.stored == nil {
			m.stored = known.New(known.MaxForms * m.capacity)
		}
		m.read++
		m.stored.Add(value.Type, value.Text)
	})
	return err
}

// IndexValues makes Find return values without storing them.
func (v *Vault) IndexValues(values []Value) {
	if len(values) == 0 {
		return
	}
	m := &v.index
	m.mu.Lock()
	if m.seen == nil {
		m.seen = known.New(maxSeen)
	}
	seen := m.seen
	m.mu.Unlock()
	for _, value := range values {
		seen.Add(value.Type, value.Text)
	}
}

// Find returns the positions of values in a text that are stored, as of the last
// RefreshIndex, or were passed to IndexValues.
func (v *Vault) Find(text string) []detect.Finding {
	return v.find(text, func(x *known.Index) []detect.Finding { return x.Find(text) })
}

// FindSqueezed is Find for a text whose gaps were removed at the given positions.
func (v *Vault) FindSqueezed(text string, gaps []int) []detect.Finding {
	return v.find(text, func(x *known.Index) []detect.Finding { return x.FindSqueezed(text, gaps) })
}

// Joined returns FindSqueezed for values of several words only, or nil if none are known.
func Joined(v *Vault) func(text string, gaps []int) []detect.Finding {
	m := &v.index
	m.mu.RLock()
	defer m.mu.RUnlock()
	if (m.stored == nil || !m.stored.HasJoined()) && (m.seen == nil || !m.seen.HasJoined()) {
		return nil
	}
	return func(text string, gaps []int) []detect.Finding {
		return v.find(text, func(x *known.Index) []detect.Finding { return x.FindJoined(text, gaps) })
	}
}

func (v *Vault) find(text string, in func(*known.Index) []detect.Finding) []detect.Finding {
	m := &v.index
	m.mu.RLock()
	kept, seen := m.stored, m.seen
	m.mu.RUnlock()
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
func (m *valueIndex) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored, m.seen, m.read, m.lastRecord, m.refreshed = nil, nil, 0, 0, time.Time{}
}
