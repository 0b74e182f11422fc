package process

import (
	"os"
	"path/filepath"
	"testing"
	"time"
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
