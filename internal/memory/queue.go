package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// kind is the kind of a wait; those of a lower kind are admitted first.
type kind int

const (
	turn kind = iota
	grow
	reserve
	kinds
)

// waiter is a call that waits.
type waiter struct {
	owner    *owner
	kind     kind
	bytes    int64
	share    *Share
	admitted chan struct{} // closed when the wait ends, also by the release of share
}

// acquire waits until n more bytes may be held.
func (b *Budget) acquire(ctx context.Context, name string, k kind, n int64, s *Share) (*Share, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	limit := b.limit(name) // may take locks
	b.mu.Lock()
	if s != nil && s.ended {
		b.mu.Unlock()
		return nil, errReleased
	}
	o := b.owners[name]
	if o == nil {
		o = &owner{name: name}
		b.owners[name] = o
	}
	o.limit = limit
	if s == nil {
		s = &Share{budget: b, owner: o}
	}
	s.owner = o
	w := &waiter{owner: o, kind: k, bytes: n, share: s, admitted: make(chan struct{})}
	o.lines[k] = append(o.lines[k], w)
	b.admit()
	b.mu.Unlock()
	select {
	case <-w.admitted:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.remove(w) {
		b.forget(o)
		b.admit() // it may have been in the way of others
		return nil, context.Cause(ctx)
	}
	if s.ended {
		return nil, errReleased
	}
	return s, nil
}

// errReleased is the result of Grow for a share that was released.
var errReleased = fmt.Errorf("memory: the share was released")

// admit admits all waiters that there is room for.
func (b *Budget) admit() {
	for {
		w := b.next()
		if w == nil {
			return
		}
		o := w.owner
		if w.kind == grow && !b.hasRoom(w) {
			o.over = w.share
		}
		o.remove(w)
		w.share.bytes += w.bytes
		o.used += w.bytes
		b.used += w.bytes
		if w.kind == turn {
			o.turns++
			b.turns++
		}
		b.setBusy(b.used <= peak)
		if b.peaked = b.peaked || b.used > peak; b.peaked && b.freeing != nil {
			b.freeing.Stop()
			b.freeing = nil
		}
		b.served++
		o.served = b.served
		close(w.admitted)
	}
}

// next returns the waiter to admit: the first of the owner that has the fewest turns, or for the
// others holds the fewest bytes, and was served least recently.
func (b *Budget) next() *waiter {
	for k := range kinds {
		var best *waiter
		for _, o := range b.owners {
			if w := b.first(o, k); w != nil && (best == nil || compare(k, o, best.owner) < 0) {
				best = w
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

func compare(k kind, a, b *owner) int {
	first := cmp.Compare(a.used, b.used)
	if k == turn {
		first = cmp.Compare(a.turns, b.turns)
	}
	return cmp.Or(first, cmp.Compare(a.served, b.served), cmp.Compare(a.name, b.name))
}

// first returns the waiter of an owner and kind that may be admitted; nil if there is none.
func (b *Budget) first(o *owner, k kind) *waiter {
	if len(o.lines[k]) == 0 {
		return nil
	}
	w := o.lines[k][0]
	room := b.hasRoom(w)
	switch {
	case k == turn && b.turns < b.cfg.Turns && (o.turns == 0 || room && b.turns < b.cfg.Turns-1), k == grow && room,
		k == reserve && room && len(o.lines[grow]) == 0:
		return w
	case k == grow:
		if i := slices.IndexFunc(o.lines[k], func(w *waiter) bool { return o.over == nil || w.share == o.over }); i >= 0 {
			return o.lines[k][i]
		}
	}
	return nil
}

// hasRoom reports whether the bytes of a waiter are within the limits.
func (b *Budget) hasRoom(w *waiter) bool {
	o := w.owner
	return o.used+w.bytes <= o.limit && (b.used+w.bytes <= b.cfg.Total || o.used+w.bytes <= minShare)
}

// remove removes a waiter from its line, and reports whether it was there.
func (o *owner) remove(w *waiter) bool {
	i := slices.Index(o.lines[w.kind], w)
	if i < 0 {
		return false
	}
	o.lines[w.kind] = slices.Delete(o.lines[w.kind], i, i+1)
	return true
}

// release returns bytes of an owner.
func (b *Budget) release(o *owner, n int64) {
	o.used -= n
	b.used -= n
	b.forget(o)
	b.admit()
	if (b.peaked || b.busy) && b.used <= peak && b.freeing == nil {
		b.freeing = time.AfterFunc(idle, b.free)
	}
}

// forget deletes an owner that holds and wants nothing, so that the map does not grow with
// every owner ever seen.
func (b *Budget) forget(o *owner) {
	if o.used == 0 && o.turns == 0 && len(o.lines[turn])+len(o.lines[grow])+len(o.lines[reserve]) == 0 && b.owners[o.name] == o {
		delete(b.owners, o.name)
	}
}
