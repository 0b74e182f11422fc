package process

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// pool keeps workers forked ahead of need: some that wait for any tenant, and
// for the specs that ran lately some that are bound and sealed. A refill runs
// only while nobody waits for a worker: when the machine is saturated, forking
// on demand is cheaper than warming ahead.
type pool struct {
	b *Backend

	mu      sync.Mutex
	idle    []*process            // unbound
	ready   map[string][]*process // sealed, by spec
	recent  []recentSpec          // latest last
	waiting int                   // Opens at work
	filling bool
	closed  bool
}

type recentSpec struct {
	key  string
	spec sandbox.Spec
	used time.Time
}

// hotSpecs is how many specs have workers bound ahead, and hotFor how long
// after their last use.
const (
	hotSpecs = 16
	hotFor   = 2 * time.Minute
)

func newPool(b *Backend) *pool { return &pool{b: b, ready: map[string][]*process{}} }

// specKey is what makes a sealed worker fit a spec: everything that sealing
// fixes.
func specKey(s sandbox.Spec) string {
	k, _ := json.Marshal(s)
	return string(k)
}

// take returns a worker sealed for spec, from the shelf or made now.
func (p *pool) take(ctx context.Context, spec sandbox.Spec) (*process, error) {
	key := specKey(spec)
	p.mu.Lock()
	p.waiting++
	w, sealed := p.pick(key)
	p.mu.Unlock()

	var err error
	if !sealed {
		w, err = p.make(ctx, w, spec)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
	if err != nil {
		return nil, err
	}
	p.remember(key, spec)
	p.refill()
	return w, nil
}

// pick takes a live worker off the shelves; sealed tells which it was.
func (p *pool) pick(key string) (w *process, sealed bool) {
	for list := p.ready[key]; len(list) > 0; {
		w, list = list[0], list[1:]
		p.ready[key] = list
		if !w.gone() {
			return w, true
		}
		w.end()
	}
	for len(p.idle) > 0 {
		w, p.idle = p.idle[0], p.idle[1:]
		if !w.gone() {
			return w, false
		}
		w.end()
	}
	return nil, false
}

// make seals w, or a new worker, for spec. A worker that died while it waited,
// with its zygote or by itself, is replaced once.
func (p *pool) make(ctx context.Context, w *process, spec sandbox.Spec) (*process, error) {
	for try := 0; ; try++ {
		var err error
		if w == nil {
			if w, err = p.b.fork(); err != nil {
				return nil, unavailable(err)
			}
		}
		if err = w.bind(ctx, spec); err == nil {
			return w, nil
		}
		w.end()
		w = nil
		if try > 0 || ctx.Err() != nil {
			return nil, err
		}
	}
}

func (p *pool) remember(key string, spec sandbox.Spec) {
	p.recent = slices.DeleteFunc(p.recent, func(r recentSpec) bool { return r.key == key })
	p.recent = append(p.recent, recentSpec{key, spec, time.Now()})
	for len(p.recent) > hotSpecs || len(p.recent) > 0 && time.Since(p.recent[0].used) > hotFor {
		p.forget(p.recent[0].key)
		p.recent = p.recent[1:]
	}
}

func (p *pool) forget(key string) {
	for _, w := range p.ready[key] {
		w.end()
	}
	delete(p.ready, key)
}

// refill starts filling the shelves if nobody does. The caller holds p.mu.
func (p *pool) refill() {
	if p.filling || p.closed {
		return
	}
	p.filling = true
	p.b.tasks.Go(p.fill)
}

func (p *pool) fill() {
	for {
		p.mu.Lock()
		spec, unbound, more := p.need()
		if !more {
			p.filling = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		w, err := p.b.fork()
		if err == nil && !unbound {
			if err = w.bind(context.Background(), spec); err != nil {
				w.end()
			}
		}
		p.mu.Lock()
		if err != nil || p.closed {
			if err == nil {
				w.end()
			}
			p.filling = false
			p.mu.Unlock()
			return
		}
		if unbound {
			p.idle = append(p.idle, w)
		} else {
			p.ready[specKey(spec)] = append(p.ready[specKey(spec)], w)
		}
		p.mu.Unlock()
	}
}

// need says what the shelves lack, the hottest spec first.
func (p *pool) need() (spec sandbox.Spec, unbound, more bool) {
	if p.closed || p.waiting > 0 {
		return spec, false, false
	}
	for i := len(p.recent) - 1; i >= 0; i-- {
		if r := p.recent[i]; len(p.ready[r.key]) < p.b.cfg.Ready {
			return r.spec, false, true
		}
	}
	return spec, true, len(p.idle) < p.b.cfg.Idle
}

func (p *pool) warm(spec sandbox.Spec) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remember(specKey(spec), spec)
	p.refill()
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.idle {
		w.end()
	}
	for key := range p.ready {
		p.forget(key)
	}
	p.idle, p.recent = nil, nil
}
