package process

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// pool keeps workers forked ahead of need: some that wait for any tenant, and
// for the specs that ran lately some that are bound and sealed. Refills begin
// only while nobody waits for a worker and a processor is free: when the machine
// is saturated, forking on demand is cheaper than warming ahead. Several run at a time, since most of
// one is waiting: moving a process into a cgroup takes the kernel up to 15 ms.
type pool struct {
	b *Backend

	mu      sync.Mutex
	idle    []*process            // unbound
	ready   map[string][]*process // sealed, by spec
	recent  []recentSpec          // latest last
	waiting int                   // Opens at work
	filling map[string]int        // refills at work, by spec; "" is unbound
	later   *time.Timer           // starts the next refill
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

// refillAfter is how long refills stay out of the way of code that was just
// started; most of it is done by then. The end of a sandbox starts them at once.
const refillAfter = 20 * time.Millisecond

func newPool(b *Backend) *pool {
	p := &pool{b: b, ready: map[string][]*process{}, filling: map[string]int{}}
	p.later = time.AfterFunc(time.Hour, p.refill)
	return p
}

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
		w, err = p.await(ctx, w, spec)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
	if err != nil {
		return nil, err
	}
	p.remember(key, spec)
	p.later.Reset(refillAfter)
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

// await is make for a caller that waits no longer than ctx, whatever make waits for.
func (p *pool) await(ctx context.Context, w *process, spec sandbox.Spec) (*process, error) {
	type made struct {
		w   *process
		err error
	}
	done := make(chan made)
	p.b.tasks.Go(func() {
		w, err := p.make(ctx, w, spec)
		select {
		case done <- made{w, err}:
		case <-ctx.Done():
			if err == nil {
				w.end()
			}
		}
	})
	select {
	case m := <-done:
		return m.w, m.err
	case <-ctx.Done():
		return nil, fault.Wrap(fault.Unavailable, context.Cause(ctx), "no sandbox opened in time").
			WithHint("run it again in a moment; if that does not help, `sandpiper doctor` says why")
	}
}

// make seals w, or a new worker, for spec. A worker that died while it waited,
// with its zygote or by itself, is replaced once.
func (p *pool) make(ctx context.Context, w *process, spec sandbox.Spec) (*process, error) {
	for try := 0; ; try++ {
		var err error
		if w == nil {
			if w, err = p.b.fork(false); err != nil {
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

// refill starts what the shelves lack.
func (p *pool) refill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		spec, key, more := p.need()
		if !more {
			return
		}
		p.filling[key]++
		p.b.tasks.Go(func() { p.fill(spec, key) })
	}
}

// fill makes one worker for the shelf of key.
func (p *pool) fill(spec sandbox.Spec, key string) {
	w, err := p.b.fork(true)
	if err == nil && key != "" {
		if err = w.bind(context.Background(), spec); err != nil {
			w.end()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filling[key]--
	switch {
	case err != nil:
		p.b.cfg.Log.Debug("a worker could not be made ahead", "error", err)
	case p.closed || key != "" && !p.hot(key):
		w.end()
	case key == "":
		p.idle = append(p.idle, w)
	default:
		p.ready[key] = append(p.ready[key], w)
	}
}

func (p *pool) hot(key string) bool {
	return slices.ContainsFunc(p.recent, func(r recentSpec) bool { return r.key == key })
}

// need says what the shelves lack, the hottest spec first.
func (p *pool) need() (spec sandbox.Spec, key string, more bool) {
	if p.closed || p.waiting > 0 || int(p.b.running.Load()) >= runtime.GOMAXPROCS(0) {
		return spec, "", false
	}
	for i := len(p.recent) - 1; i >= 0; i-- {
		if r := p.recent[i]; len(p.ready[r.key])+p.filling[r.key] < p.b.cfg.BoundWorkers {
			return r.spec, r.key, true
		}
	}
	return spec, "", len(p.idle)+p.filling[""] < p.b.cfg.IdleWorkers
}

func (p *pool) warm(spec sandbox.Spec) {
	p.mu.Lock()
	p.remember(specKey(spec), spec)
	p.mu.Unlock()
	p.refill()
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.later.Stop()
	for _, w := range p.idle {
		w.end()
	}
	for key := range p.ready {
		p.forget(key)
	}
	p.idle, p.recent = nil, nil
}
