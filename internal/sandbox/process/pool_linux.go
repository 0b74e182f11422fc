package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// pool keeps workers forked in advance: unbound ones for any tenant, and bound ones
// for recently used specs. Refills start only while no Open is pending and a
// processor is free: on a saturated machine, forking on demand is cheaper. Several
// run concurrently, since they mostly wait: with cgroup v2, joining a group takes
// the kernel up to 15 ms.
type pool struct {
	b *Backend

	mu          sync.Mutex
	idle        []*process            // unbound
	ready       map[string][]*process // bound, by spec
	recent      []recentSpec          // most recent last
	specs       int                   // most of them
	crowded     time.Time             // when a recent spec was last forgotten for another
	waiting     int                   // pending Opens
	filling     map[string]int        // active refills, by spec; "" means unbound
	refillTimer *time.Timer           // starts the next refill
	closed      bool
}

type recentSpec struct {
	key   string
	spec  sandbox.Spec
	used  time.Time
	again bool // used twice within soon
}

// maxRecentSpecs is the largest number of specs with workers bound in advance, and recentFor
// how long they are kept after the last use. While more specs are in use, only those that
// are used again soon have some: the workers of others would be discarded unused. A worker
// takes up to descriptorsPerWorker of the daemon: two pipes, a pidfd, and the files of
// cgroups, of which some are kept for the next.
const (
	maxRecentSpecs       = 16
	recentFor            = 2 * time.Minute
	soon                 = 300 * time.Millisecond
	descriptorsPerWorker = 12
)

// recentSpecs returns the number of specs with workers bound in advance. These take at most a
// quarter of the descriptors, so that connections and databases find some.
func recentSpecs(workers int) int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return maxRecentSpecs
	}
	return int(min(maxRecentSpecs, max(1, l.Cur/4/uint64(workers*descriptorsPerWorker))))
}

// refillAfter delays refills after a start, since most code ends within that time.
// Closing a sandbox starts them at once.
const refillAfter = 20 * time.Millisecond

func newPool(b *Backend) *pool {
	p := &pool{b: b, specs: recentSpecs(b.cfg.BoundWorkers), ready: map[string][]*process{}, filling: map[string]int{}}
	p.refillTimer = time.AfterFunc(time.Hour, p.refill)
	return p
}

// specKey identifies the specs that a bound worker fits: all fields and the mounted
// directories, since binding fixes them. A directory that was replaced under its name,
// by a restore for example, is another one.
func (p *pool) specKey(s sandbox.Spec) string {
	k, _ := json.Marshal(s)
	for _, m := range s.Mounts {
		var st unix.Stat_t
		_ = unix.Stat(filepath.Join(p.b.cfg.Roots[m.Root], m.Name), &st) // a missing one fails in bind
		k = fmt.Appendf(k, " %d:%d", st.Dev, st.Ino)
	}
	return string(k)
}

// take returns a worker bound to spec, from the pool or new.
func (p *pool) take(ctx context.Context, spec sandbox.Spec) (*process, error) {
	key := p.specKey(spec)
	p.mu.Lock()
	p.waiting++
	w, bound := p.pick(key)
	p.mu.Unlock()

	var err error
	if !bound {
		w, err = p.bindWithin(ctx, w, spec)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
	if err != nil {
		return nil, err
	}
	p.remember(key, spec)
	p.refillTimer.Reset(refillAfter)
	return w, nil
}

// pick removes a live worker from the pool; bound reports whether it is bound to the
// spec of key.
func (p *pool) pick(key string) (w *process, bound bool) {
	for list := p.ready[key]; len(list) > 0; {
		w, list = list[0], list[1:]
		p.ready[key] = list
		if !w.hasExited() {
			return w, true
		}
		w.end()
	}
	for len(p.idle) > 0 {
		w, p.idle = p.idle[0], p.idle[1:]
		if !w.hasExited() {
			return w, false
		}
		w.end()
	}
	return nil, false
}

// bindWithin calls bindWorker and stops waiting for it when ctx ends.
func (p *pool) bindWithin(ctx context.Context, w *process, spec sandbox.Spec) (*process, error) {
	type result struct {
		w   *process
		err error
	}
	done := make(chan result)
	p.b.tasks.Go(func() {
		w, err := p.bindWorker(ctx, w, spec)
		select {
		case done <- result{w, err}:
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
		return nil, late(context.Cause(ctx))
	}
}

// late returns the error of a sandbox that took too long to open, or for which something was short.
func late(cause error) error {
	if _, ok := errors.AsType[*fault.Error](cause); ok {
		return cause
	}
	return fault.Wrap(fault.Unavailable, cause, "no sandbox opened in time").
		WithHint("run it again in a moment; if that does not help, run `sandpiper doctor`")
}

// tookTooLong reports whether err is that of a step which did not end in time, as on an
// overloaded machine. A zygote or keeper that is late is killed.
func tookTooLong(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errZygoteGone) || errors.Is(err, errKeeperGone)
}

// bindWorker binds w, or a new worker if w is nil, to spec. A worker that died in
// the pool is replaced once.
func (p *pool) bindWorker(ctx context.Context, w *process, spec sandbox.Spec) (*process, error) {
	for try := 0; ; try++ {
		var err error
		if w == nil {
			switch w, err = p.b.fork(false); {
			case err != nil && tookTooLong(err):
				return nil, late(err)
			case err != nil:
				return nil, unavailable(err)
			}
		}
		if err = w.bind(ctx, spec); err == nil {
			return w, nil
		}
		w.end()
		w = nil
		switch {
		case tookTooLong(err) && (try > 0 || ctx.Err() != nil):
			return nil, late(err)
		case try > 0 || ctx.Err() != nil:
			return nil, err
		}
	}
}

// drop removes key from the recent specs, with its workers.
func (p *pool) drop(key string) {
	p.recent = slices.DeleteFunc(p.recent, func(r recentSpec) bool { return r.key == key })
	p.forget(key)
}

func (p *pool) remember(key string, spec sandbox.Spec) {
	now := recentSpec{key: key, spec: spec, used: time.Now()}
	if i := slices.IndexFunc(p.recent, func(r recentSpec) bool { return r.key == key }); i >= 0 {
		now.again = time.Since(p.recent[i].used) < soon
		p.recent = slices.Delete(p.recent, i, i+1)
	}
	p.recent = append(p.recent, now)
	for len(p.recent) > 0 && (len(p.recent) > p.specs || time.Since(p.recent[0].used) > recentFor) {
		if len(p.recent) > p.specs {
			p.crowded = time.Now()
		}
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

// refill starts making the workers that the pool lacks.
func (p *pool) refill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		spec, key, more := p.nextRefill()
		if !more {
			return
		}
		p.filling[key]++
		p.b.tasks.Go(func() { p.fill(spec, key) })
	}
}

// fill makes one worker for key.
func (p *pool) fill(spec sandbox.Spec, key string) {
	w, err := p.b.fork(true)
	replaced := false
	if err == nil && key != "" {
		if err = w.bind(context.Background(), spec); err != nil {
			w.end()
		}
		replaced = p.specKey(spec) != key
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filling[key]--
	if replaced {
		p.drop(key)
	}
	switch {
	case err != nil:
		p.b.cfg.Log.Debug("making a worker in advance failed", "error", err)
	case p.closed || key != "" && !p.isRecent(key):
		w.end()
	case key == "":
		p.idle = append(p.idle, w)
	default:
		p.ready[key] = append(p.ready[key], w)
	}
}

func (p *pool) isRecent(key string) bool {
	return slices.ContainsFunc(p.recent, func(r recentSpec) bool { return r.key == key })
}

// nextRefill returns what the pool lacks, the most recent spec first.
func (p *pool) nextRefill() (spec sandbox.Spec, key string, more bool) {
	if p.closed || p.waiting > 0 || int(p.b.running.Load()) >= runtime.GOMAXPROCS(0) {
		return spec, "", false
	}
	crowded := time.Since(p.crowded) < recentFor
	for i := len(p.recent) - 1; i >= 0; i-- {
		if r := p.recent[i]; (r.again || !crowded) && len(p.ready[r.key])+p.filling[r.key] < p.b.cfg.BoundWorkers {
			return r.spec, r.key, true
		}
	}
	return spec, "", len(p.idle)+p.filling[""] < p.b.cfg.IdleWorkers
}

func (p *pool) warm(spec sandbox.Spec) {
	key := p.specKey(spec)
	p.mu.Lock()
	p.remember(key, spec)
	p.mu.Unlock()
	p.refill()
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.refillTimer.Stop()
	for _, w := range p.idle {
		w.end()
	}
	for key := range p.ready {
		p.forget(key)
	}
	p.idle, p.recent = nil, nil
}
