package process

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// runConcurrently runs code once per element of owners, all at the same time, and
// returns the results by owner. The programs of an owner start together. Code calls
// go(), which returns after all have started.
func (h *host) runConcurrently(b *Backend, owners []string, code string, while func()) map[string][]float64 {
	h.t.Helper()
	results := map[string][]float64{}
	var mu sync.Mutex
	var all sync.WaitGroup
	var specs []sandbox.Spec
	for i, owner := range owners {
		spec := h.spec(owner)
		specs = append(specs, spec)
		started := fmt.Sprintf("started%d", i)
		all.Go(func() {
			out := h.run(b, spec, fmt.Sprintf("import os, time\ndef go():\n    open('/workspace/%s', 'w').close()\n    while not "+
				"os.path.exists('/workspace/go'): time.sleep(0.01)\n%s", started, code))
			var v float64
			if err := json.Unmarshal(out.Result, &v); err != nil {
				h.t.Errorf("%s: %s %s %s", owner, out.Status, out.Error, out.Result)
			}
			mu.Lock()
			defer mu.Unlock()
			results[owner] = append(results[owner], v)
		})
		h.waitFor(filepath.Join(h.cfg.Roots["workspaces"], owner, started))
	}
	while()
	for _, s := range specs {
		if err := os.WriteFile(filepath.Join(h.cfg.Roots["workspaces"], s.Owner, "go"), nil, 0o644); err != nil {
			h.t.Fatal(err)
		}
	}
	all.Wait()
	return results
}

func (h *host) waitFor(name string) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if _, err := os.Stat(name); err == nil {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	h.t.Fatalf("%s does not come", name)
}

// All programs spin on one processor. Without weights b would have a fifth of it.
func TestTenantsShareCPUEqually(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	if !b.groups.hasWeights {
		t.Skip("this host grants no cgroup with weights")
	}
	began := time.Now()
	used := h.runConcurrently(b, []string{"a", "a", "a", "a", "b"}, `
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
go()
end = time.monotonic() + 0.5
while time.monotonic() < end: pass
before, end = time.process_time(), end + 2
while time.monotonic() < end: pass
time.process_time() - before`, func() {})
	a := 0.0
	for _, v := range used["a"] {
		a += v
	}
	t.Logf("in %v a had %.2f s and b %.2f s", time.Since(began), a, used["b"][0])
	if used["b"][0] < 0.5*a {
		t.Errorf("b had %.2f s of the processor and a %.2f s", used["b"][0], a)
	}
	b.groups.mu.Lock()
	defer b.groups.mu.Unlock()
	for _, g := range b.groups.free {
		if max(1, g.divisor) != 1 {
			t.Errorf("a group that is used again weighs a %dth of what is usual", g.divisor)
		}
	}
}

func TestPriorityWithoutCgroupWeights(t *testing.T) {
	h := newHost(t)
	b := h.backend(func(c *Config) { c.Disabled = []string{"cgroups"} })
	disk := map[string][]int{}
	nice := h.runConcurrently(b, []string{"a", "a", "a", "b"}, "go()\nos.getpriority(os.PRIO_PROCESS, 0)", func() {
		b.shares.mu.Lock()
		defer b.shares.mu.Unlock()
		for owner, all := range b.shares.running {
			for w := range all {
				disk[owner] = append(disk[owner], ioPriority(t, w.hostPID()))
			}
		}
	})
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	base := float64(20 - own) // the system call returns 20 - nice
	total := 0.0
	for _, v := range nice["a"] {
		total += v - base
	}
	if total != 3+6 || nice["b"][0] != base {
		t.Errorf("nice is %v", nice)
	}
	sum := 0
	for _, level := range disk["a"] {
		sum += level
	}
	if sum != 5+6+0 || disk["b"][0] != 0 { // 0: it is taken from nice
		t.Errorf("priorities for the disk are %v", disk)
	}
}

// ioPriority is the level of ioprio_get(2), without its class.
func ioPriority(t *testing.T, pid int) int {
	t.Helper()
	p, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, 1, uintptr(pid), 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	if p>>13 == 0 {
		return 0
	}
	return int(p & 0x1fff)
}

func TestDivisorIsPowerOfTwo(t *testing.T) {
	for n, want := range []int{1, 1, 2, 4, 4, 8, 8, 8, 8, 16} {
		if got := divisor(n); got != want {
			t.Errorf("divisor(%d) is %d, want %d", n, got, want)
		}
	}
}
