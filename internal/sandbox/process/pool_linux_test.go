package process

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// A restore replaces a workspace while workers are bound to the old one.
func TestReplacedWorkspaceIsMounted(t *testing.T) {
	h := newHost(t)
	b := h.backend(func(cfg *Config) { cfg.BoundWorkers = 1 })
	spec := h.spec("a")
	dir := filepath.Join(h.cfg.Roots["workspaces"], "a")
	if err := os.WriteFile(filepath.Join(dir, "which"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := h.run(b, spec, "open('which').read()"); string(out.Result) != `"old"` {
		t.Fatal(string(out.Result), out.Error)
	}
	// A worker for the next run is bound after each run.
	for until := time.Now().Add(30 * time.Second); !b.pool.hasReady(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("no worker was bound in advance")
		}
	}
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	h.spec("a")
	if err := os.WriteFile(filepath.Join(dir, "which"), []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := h.run(b, spec, "open('which').read()"); string(out.Result) != `"new"` {
		t.Error(string(out.Result), out.Error)
	}
}

func (p *pool) hasReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.ready {
		if len(list) > 0 {
			return true
		}
	}
	return false
}

// Workers that wait for tenants leave descriptors to connections and databases.
func TestWarmWorkersTakeAQuarterOfTheDescriptors(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[uint64]int{1 << 19: maxRecentSpecs, 1024: 5, 100: 1} {
		limited := unix.Rlimit{Cur: min(limit, before.Max), Max: before.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limited); err != nil {
			t.Fatal(err)
		}
		got := recentSpecs(4)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%d specs with four workers of %d descriptors, want %d", got, limit, want)
		}
	}
}

// Tenants that are active in turn, more than have workers in advance, cost about one fork for each
// execution. One that is active again at once has workers in advance.
func TestManyTenantsDiscardFewWorkers(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	forks := func() int {
		z, err := b.currentZygote()
		if err != nil {
			t.Fatal(err)
		}
		z.mu.Lock()
		defer z.mu.Unlock()
		return z.forked
	}
	specs := make([]sandbox.Spec, 3*maxRecentSpecs)
	for i := range specs {
		specs[i] = h.spec(fmt.Sprint("tenant", i))
		specs[i].UID = 0
		if tenantUIDs(t) > 0 {
			specs[i].UID = FirstUID + int('t')
		}
	}
	for _, spec := range specs[:2*maxRecentSpecs] {
		h.run(b, spec, "1")
	}
	before := forks()
	for settled := time.Now(); time.Since(settled) < 20*refillAfter; time.Sleep(refillAfter) { // refills of what came before
		if now := forks(); now != before {
			before, settled = now, time.Now()
		}
	}
	for _, spec := range specs {
		h.run(b, spec, "1")
		time.Sleep(refillAfter * 2) // a refill begins
	}
	if n := forks() - before; n > 2*len(specs) {
		t.Errorf("%d executions forked %d times", len(specs), n)
	}
	for until := time.Now().Add(30 * time.Second); !b.pool.hasReadyFor(specs[0]); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("no worker was bound in advance for the tenant that is active again and again")
		}
		h.run(b, specs[0], "1")
	}
}

func (p *pool) hasReadyFor(spec sandbox.Spec) bool {
	spec.Limits = spec.Limits.WithDefaults(p.b.cfg.Defaults)
	key := p.specKey(spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready[key]) > 0
}
