package vault

import (
	"context"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/known"
)

// memory is what is found again in texts: the values of the vault, and those that
// were seen since this process began. Most vaults are small, so that what there
// may be in one takes no room before it is there.
type valueIndex struct {
	mu           sync.RWMutex
	stored, seen *known.Index // nil while there is nothing
	capacity     int          // of kept
	lastRecord   int64        // the record that was read last
	refreshed    time.Time
}

const (
	// mostSeen bounds the values that are only seen. Those of the vault are all
	// found again.
	maxSeen = 100_000
	// leastKept is the room that is made at first, and growth how much more when it
	// is full.
	minCapacity    = 4096
	capacityGrowth = 8
	// lookEvery is how long the values that other processes keep may be unknown here.
	refreshEvery = time.Second
)

// Recall makes sure that Find knows the values of the vault. It reads them the
// first time, and those that are new sometimes.
func (v *Vault) RefreshIndex(ctx context.Context) error {
	m := &v.index
	m.mu.Lock()
	defer m.mu.Unlock()
	now := v.cfg.Now()
	if !m.refreshed.IsZero() && now.Sub(m.refreshed) < refreshEvery {
		return nil
	}
	if err := v.loadIndex(ctx); err != nil {
		return err
	}
	for m.stored != nil && m.stored.Len() >= m.capacity && m.capacity < v.cfg.MaxRecords {
		m.capacity, m.lastRecord, m.stored = min(capacityGrowth*m.capacity, v.cfg.MaxRecords), 0, nil
		if err := v.loadIndex(ctx); err != nil {
			return err
		}
	}
	m.refreshed = now
	return nil
}

// recall reads what is new in the vault. The caller holds the lock.
func (v *Vault) loadIndex(ctx context.Context) (err error) {
	m := &v.index
	m.lastRecord, err = v.Each(ctx, m.lastRecord, func(value Value) {
		if m.stored == nil {
			m.capacity = max(m.capacity, min(minCapacity, v.cfg.MaxRecords))
			m.stored = known.New(m.capacity)
		}
		m.stored.Add(value.Type, value.Text)
	})
	return err
}

// See has Find know values that no token stands for.
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

// Find returns the places in a text where values are that the vault has, or has
// seen. Those of the vault are known after Recall.
func (v *Vault) Find(text string) []detect.Finding {
	return v.find(text, func(x *known.Index) []detect.Finding { return x.Find(text) })
}

// FindSqueezed is Find for a text without its gaps, which were at the given places.
func (v *Vault) FindSqueezed(text string, gaps []int) []detect.Finding {
	return v.find(text, func(x *known.Index) []detect.Finding { return x.FindSqueezed(text, gaps) })
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

// forget is for when the values that were kept are none any more.
func (m *valueIndex) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored, m.seen, m.lastRecord, m.refreshed = nil, nil, 0, time.Time{}
}
