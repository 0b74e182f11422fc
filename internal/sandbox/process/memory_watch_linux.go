package process

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Without a cgroup, the daemon enforces the memory limit: it adds up the memory of all
// processes of a running worker and kills the worker above its limit. RLIMIT_AS bounds
// each process, the watch bounds the sum, and the sizes of /tmp and /dev/shm and the
// limits on processes and descriptors bound the memory that it cannot see. Doctor
// reports this as "soft".

const watchEvery = 50 * time.Millisecond

type softUsage struct {
	peak int64
	over bool
}

type softWatch struct {
	done chan struct{}
	wg   sync.WaitGroup
	used softUsage
}

// watch starts watching w if it has no cgroup.
func (b *Backend) watch(w *process, limits sandbox.Limits) *softWatch {
	s := &softWatch{done: make(chan struct{})}
	if w.group != nil || contains(b.cfg.Disabled, "cgroups") {
		return s
	}
	s.wg.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-s.done:
				return
			case <-tick.C:
				if s.check(w.hostPID(), limits.MemoryBytes) {
					w.kill()
					return
				}
			}
		}
	})
	return s
}

func (s *softWatch) stop() softUsage {
	close(s.done)
	s.wg.Wait()
	return s.used
}

// check measures once and reports whether the limit is exceeded. The cheap sum of RSS
// counts shared pages in every process; the exact sum of PSS is computed only if RSS
// exceeds the limit.
func (s *softWatch) check(pid int, limit int64) bool {
	if pid <= 0 {
		return false
	}
	pids := descendants(pid, nil)
	used := sum(pids, rssOf)
	if used > limit {
		used = sum(pids, pssOf)
	}
	s.used.peak = max(s.used.peak, used)
	s.used.over = used > limit
	return s.used.over
}

func sum(pids []int, of func(int) int64) int64 {
	var total int64
	for _, pid := range pids {
		total += of(pid)
	}
	return total
}

// descendants returns pid and all its descendants. Orphans are included, since a
// worker is pid 1 of its namespace.
func descendants(pid int, found []int) []int {
	found = append(found, pid)
	tasks, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	for _, t := range tasks {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + t.Name() + "/children")
		for child := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(child); err == nil {
				found = descendants(n, found)
			}
		}
	}
	return found
}

func rssOf(pid int) int64 {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if f := strings.Fields(string(b)); len(f) > 2 {
		resident, _ := strconv.ParseInt(f[1], 10, 64)
		return resident * int64(os.Getpagesize())
	}
	return 0
}

func pssOf(pid int) int64 {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	return rssOf(pid)
}

// hostPID returns the worker's process id in our pid namespace, or 0 if it is
// gone. Use it only for reading; operations that must not hit a reused pid use the
// pidfd.
func (w *process) hostPID() int {
	return pidOf(w.fd())
}

// pidOf returns the process id that a pidfd refers to, or 0 if the process is gone.
func pidOf(pidfd int) int {
	b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if pid, ok := strings.CutPrefix(line, "Pid:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(pid))
			return max(0, n)
		}
	}
	return 0
}
