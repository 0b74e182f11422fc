package gvisor

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// pool keeps sandboxes for recently used specs, which wait with their worker locked down. One
// is started at a time, and only while a processor is free: a start costs a fifth of a second
// of processor time.
type pool struct {
	b *Backend

	mu      sync.Mutex
	ready   map[string][]*guest // by spec
	recent  []recentSpec        // most recent last
	opening int                 // Opens that start a sandbox
	filling bool
	closed  bool
	timer   *time.Timer // for the next refill, which also ends sandboxes that waited too long
}

type recentSpec struct {
	key  string
	spec sandbox.Spec
	used time.Time
}

// maxRecentSpecs is the number of specs with waiting sandboxes, and recentFor how long they wait
// after the last use.
const (
	maxRecentSpecs = 8
	recentFor      = 2 * time.Minute
)

// refillAfter delays a refill after an Open, since most code ends within that time. Closing a
// sandbox starts it at once.
const refillAfter = 20 * time.Millisecond

func newPool(b *Backend) *pool {
	p := &pool{b: b, ready: map[string][]*guest{}}
	p.timer = time.AfterFunc(recentFor, p.refill)
	return p
}

// specKey identifies the specs that a waiting sandbox fits: all fields and the mounted
// directories. A directory that was replaced under its name is another one.
func (p *pool) specKey(s sandbox.Spec) string {
	k, _ := json.Marshal(s)
	for _, m := range s.Mounts {
		var st unix.Stat_t
		_ = unix.Stat(filepath.Join(p.b.cfg.Roots[m.Root], m.Name), &st) // a missing one fails at the start
		k = fmt.Appendf(k, " %d:%d", st.Dev, st.Ino)
	}
	return string(k)
}

// take returns a sandbox for spec, from the pool or new.
func (p *pool) take(ctx context.Context, spec sandbox.Spec) (*guest, error) {
	key := p.specKey(spec)
	g, closed := p.pick(key)
	if closed {
		return nil, errClosed
	}
	if g == nil {
		var err error
		if g, err = p.open(ctx, spec); err != nil {
			return nil, err
		}
	}
	p.remember(key, spec)
	p.timer.Reset(refillAfter)
	return g, nil
}

// open starts a sandbox at once.
func (p *pool) open(ctx context.Context, spec sandbox.Spec) (*guest, error) {
	p.mu.Lock()
	p.opening++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.opening--
	}()
	g, err := p.b.start(ctx, spec)
	if err != nil && ctx.Err() != nil {
		err = fault.Wrap(fault.Unavailable, context.Cause(ctx), "no sandbox opened in time").
			WithHint("run it again in a moment; if that does not help, run `sandpiper doctor`")
	}
	return g, err
}

// pick removes a live sandbox from the pool.
func (p *pool) pick(key string) (g *guest, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.ready[key]) > 0 {
		g, p.ready[key] = p.ready[key][0], p.ready[key][1:]
		if !g.hasExited() {
			return g, p.closed
		}
		g.end()
	}
	return nil, p.closed
}

func (p *pool) remember(key string, spec sandbox.Spec) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = slices.DeleteFunc(p.recent, func(r recentSpec) bool { return r.key == key })
	p.recent = append(p.recent, recentSpec{key, spec, time.Now()})
	p.forgetOld()
}

// forgetOld ends the sandboxes of specs that were not used for long.
func (p *pool) forgetOld() {
	for len(p.recent) > maxRecentSpecs || len(p.recent) > 0 && time.Since(p.recent[0].used) > recentFor {
		p.forget(p.recent[0].key)
		p.recent = p.recent[1:]
	}
}

func (p *pool) forget(key string) {
	for _, g := range p.ready[key] {
		g.end()
	}
	delete(p.ready, key)
}

// refill starts the next sandbox that the pool lacks, unless one is being started.
func (p *pool) refill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetOld()
	if p.closed {
		return
	}
	p.timer.Reset(recentFor + time.Second)
	if p.filling || p.opening > 0 || int(p.b.running.Load()) >= runtime.GOMAXPROCS(0) {
		return
	}
	for i := len(p.recent) - 1; i >= 0; i-- {
		if r := p.recent[i]; len(p.ready[r.key]) < p.b.cfg.Waiting {
			p.filling = true
			p.b.tasks.Go(func() { p.fill(r) })
			return
		}
	}
}

// fill starts a sandbox for r, and then the next.
func (p *pool) fill(r recentSpec) {
	g, err := p.b.start(context.Background(), r.spec)
	p.mu.Lock()
	p.filling = false
	known := slices.ContainsFunc(p.recent, func(o recentSpec) bool { return o.key == r.key })
	replaced := p.specKey(r.spec) != r.key
	switch {
	case err != nil:
		p.b.cfg.Log.Debug("starting a sandbox in advance failed", "error", err)
	case p.closed || !known || replaced:
		g.end()
	default:
		p.ready[r.key] = append(p.ready[r.key], g)
	}
	if err != nil || replaced {
		p.recent = slices.DeleteFunc(p.recent, func(o recentSpec) bool { return o.key == r.key })
		p.forget(r.key)
	}
	p.mu.Unlock()
	p.refill()
}

func (p *pool) warm(spec sandbox.Spec) {
	p.remember(p.specKey(spec), spec)
	p.refill()
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.timer.Stop()
	for key := range p.ready {
		p.forget(key)
	}
	p.recent = nil
}
