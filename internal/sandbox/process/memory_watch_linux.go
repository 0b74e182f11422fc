package process

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// The memory limit applies to memory in use, not to reserved address space. Three
// mechanisms enforce it:
//
//   - RLIMIT_DATA makes an allocation fail, so that Python raises MemoryError. It counts
//     private writable memory that is reserved and not used, and stacks of threads; the
//     watch therefore raises the soft limit by the amount that is not in use. Code can raise it up to the
//     hard limit.
//   - A cgroup bounds the memory of all processes. Without one, the watch measures it and
//     kills the worker above the limit; doctor reports this as "soft".
//   - The hard RLIMIT_DATA and RLIMIT_AS bound what one process can allocate between two
//     measurements.

const (
	watchMost  = 50 * time.Millisecond // between two measurements
	watchLeast = 5 * time.Millisecond
	fastest    = 4 << 30 // bytes that code can allocate in a second
	watchShare = 10      // a measurement takes one part in so many of the time, unless that is too long
	watchBlind = 20      // measurements that may fail in a row
)

// fewProcesses of one worker keep their priority in a sandbox without a cgroup.
const fewProcesses = 8

// reservable is address space for mappings other than private writable memory: libraries, mapped files,
// shared memory.
const reservable = 4 << 30

// reserveFactor times the memory limit is the hard RLIMIT_DATA.
const reserveFactor = 2

// allowance returns how much private memory a worker may add when some of its limit is free.
// Programs allocate more than they fill, so an allocation may exceed what is free a little. Near
// the limit it may not, and takes effect before the cgroup, which also counts memory of the kernel.
func allowance(free, limit int64) int64 {
	if free > limit/32 {
		return free + limit/4
	}
	return free - limit/64
}

type memoryUsage struct {
	peak   int64
	kernel kernelUse // at the last measurement
	over   bool
}

type memoryWatch struct {
	done   chan struct{}
	wg     sync.WaitGroup
	used   memoryUsage
	blind  int // measurements that have failed in a row
	kernel kernelMemory

	unproved int // measurements above the limit in a row that a second one did not confirm
}

// watch starts watching the memory of w.
func (b *Backend) watch(w *process, limits sandbox.Limits) *memoryWatch {
	m := &memoryWatch{done: make(chan struct{}), kernel: b.newKernelMemory(limits)}
	kills := w.group == nil && !contains(b.cfg.Disabled, "cgroups")
	if !kills && contains(b.cfg.Disabled, "rlimits") {
		return m
	}
	m.wg.Go(func() {
		timer := time.NewTimer(watchInterval(limits.MemoryBytes, 0))
		defer timer.Stop()
		for {
			select {
			case <-m.done:
				return
			case <-timer.C:
				started := time.Now()
				free := m.check(w, limits.MemoryBytes, kills)
				if m.used.over {
					w.kill()
					return
				}
				timer.Reset(watchInterval(free, time.Since(started)))
			}
		}
	})
	return m
}

// watchInterval returns the time until the next measurement: that in which code can allocate the
// memory that is free.
func watchInterval(free int64, measured time.Duration) time.Duration {
	d := time.Duration(float64(max(0, free)) / fastest * float64(time.Second))
	return min(max(d, watchLeast, watchShare*measured), watchMost)
}

func (m *memoryWatch) stop() memoryUsage {
	close(m.done)
	m.wg.Wait()
	return m.used
}

// check measures once, sets the soft RLIMIT_DATA and returns the memory that is free. With kills,
// it counts all processes and files, and sets used.
func (m *memoryWatch) check(w *process, limit int64, kills bool) (free int64) {
	pid := w.hostPID()
	own := memoryOf(pid)
	if own.size == 0 { // it has ended, or no file can be opened, which code can achieve
		m.blind++
		m.used.over = kills && m.blind > watchBlind && !w.hasExited()
		return 0
	}
	m.blind = 0
	free = limit - (own.private - w.inherited.private)
	if kills {
		pids := descendants(pid, nil)
		if len(pids) > fewProcesses {
			yieldProcessors(pids)
		}
		sum := memoryOfAll(memoryOfEach(pids), w.inherited.resident, &m.kernel, false)
		if sum.total() <= limit {
			m.unproved = 0
		} else {
			sum = m.confirm(w, pids, sum, limit)
		}
		m.used.peak = max(m.used.peak, sum.total())
		m.used.kernel = sum.kernel
		m.used.over = sum.total() > limit
		free = min(free, limit-sum.total())
	}
	w.limitData(pid, own.data, allowance(free, limit))
	return free
}

// yieldProcessors gives processes the lowest priority. With equal priorities a hundred of them
// would delay the next measurement by seconds, in which they can allocate gigabytes.
func yieldProcessors(pids []int) {
	for _, pid := range pids {
		_ = unix.Setpriority(unix.PRIO_PROCESS, pid, 19) // harmless if the pid is reused
	}
}

// measureInherited returns the memory of w, which has not run any code. Workers that were forked
// after their zygote had settled have nearly the same, so one of them is measured.
func (w *process) measureInherited() memoryUse {
	if use := w.zygote.inherited.Load(); use != nil && w.settled {
		return *use
	}
	use := memoryOf(w.hostPID())
	if w.settled && use.size > 0 {
		w.zygote.inherited.Store(&use)
	}
	return use
}

// softData returns the soft RLIMIT_DATA of a worker, whose private writable memory is data, so
// that free bytes can be added.
func (w *process) softData(data, free int64) int64 { return min(data+max(0, free), w.hardData) }

// limitData sets the soft RLIMIT_DATA as softData returns it.
func (w *process) limitData(pid int, data, free int64) {
	if contains(w.b.cfg.Disabled, "rlimits") {
		return
	}
	set := unix.Rlimit{Cur: uint64(w.softData(data, free)), Max: uint64(w.hardData)}
	var before unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_DATA, &set, &before) == nil && w.hostPID() != pid {
		_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &before, nil) // the worker has ended: it was another process
	}
}
