package gvisor

import (
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// awaitWaiting waits until n sandboxes wait for spec.
func awaitWaiting(t testing.TB, b *Backend, spec sandbox.Spec, n int) {
	t.Helper()
	spec.Limits = spec.Limits.WithDefaults(b.cfg.Defaults)
	key := b.pool.specKey(spec)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		b.pool.mu.Lock()
		waiting := len(b.pool.ready[key])
		b.pool.mu.Unlock()
		if waiting == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d sandboxes wait, want %d", waiting, n)
		}
	}
}

func TestPoolServesOnlyItsSpec(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	first, second := h.spec("first"), h.spec("second")
	h.run(b, first, "1")
	awaitWaiting(t, b, first, 2)
	started := b.next.Load()
	if out := h.run(b, first, "open('/workspace/a', 'w').write('first')"); out.Status != sandbox.Completed {
		t.Errorf("%+v", out)
	}
	if now := b.next.Load(); now > started+1 { // the refill
		t.Errorf("with a waiting sandbox, %d were started", now-started)
	}
	if out := h.run(b, second, "import os; os.listdir('/workspace')"); string(out.Result) != "[]" {
		t.Errorf("another tenant got a sandbox of the first: %+v", out)
	}
	larger := first
	larger.Limits.MemoryBytes = 600 << 20
	if out := h.run(b, larger, "import os; os.statvfs('/tmp').f_blocks * os.statvfs('/tmp').f_frsize >> 20"); string(out.Result) != "300" {
		t.Errorf("a sandbox with another limit: %+v", out)
	}
	awaitWaiting(t, b, first, 2)
	awaitWaiting(t, b, second, 2)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if left := processesOf(h.cfg.State); left != "" {
		t.Errorf("left: %s", left)
	}
}

// A sandbox that died while it waited is not used.
func TestPoolSkipsADeadSandbox(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	spec := h.spec("a")
	h.run(b, spec, "1")
	awaitWaiting(t, b, spec, 2)
	b.pool.mu.Lock()
	for _, list := range b.pool.ready {
		for _, g := range list {
			g.kill()
			<-g.exited
		}
	}
	b.pool.mu.Unlock()
	if out := h.run(b, spec, "6*7"); string(out.Result) != "42" {
		t.Errorf("%+v", out)
	}
}
