package process

import (
	"math/bits"
	"sync"

	"golang.org/x/sys/unix"
)

// shares divides CPU time equally among owners, independent of the number of programs
// that each runs. With cgroup weights, each program gets a fraction of its owner's
// weight. Elsewhere, the more programs an owner runs, the lower the CPU (nice) and
// disk (ioprio) priority of those that it starts. Divisors are powers of two, so that
// most starts and ends change nothing.
type shares struct {
	b    *Backend
	nice int // of the daemon, inherited by workers

	mu      sync.Mutex
	running map[string]map[*process]bool // by owner
}

func newShares(b *Backend) *shares {
	s := &shares{b: b, running: map[string]map[*process]bool{}}
	if p, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		s.nice = 20 - p // the raw system call returns 20 - nice
	}
	return s
}

// divisor returns the divisor for an owner that runs n programs.
func divisor(n int) int {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len(uint(n-1))
}

// begin registers a program that w runs for owner; done unregisters it.
func (s *shares) begin(owner string, w *process) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.running[owner]
	if all == nil {
		all = map[*process]bool{}
		s.running[owner] = all
	}
	all[w] = true
	s.setWeights(all)
	s.setPriority(w, len(all))
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(all, w)
		s.setWeights(all)
		if len(all) == 0 {
			delete(s.running, owner)
		}
		if w.group != nil {
			s.logFailure(s.b.groups.setWeightDivisor(w.group, 1))
		}
	}
}

// setWeights gives the programs of an owner equal weights.
func (s *shares) setWeights(all map[*process]bool) {
	for w := range all {
		if w.group != nil {
			s.logFailure(s.b.groups.setWeightDivisor(w.group, divisor(len(all))))
		}
	}
}

// niceStep is the nice difference that halves a weight: three levels are a factor 1.95.
const niceStep = 3

// setPriority sets the priority of the nth program of its owner, which child processes
// inherit. Only root can raise a priority again, which matters for live interpreters.
func (s *shares) setPriority(w *process, n int) {
	level := bits.Len(uint(divisor(n))) - 1
	if level == w.level {
		return
	}
	pid := w.hostPID()
	if pid <= 0 {
		return
	}
	w.level = level
	if !s.b.groups.hasWeights {
		s.logFailure(unix.Setpriority(unix.PRIO_PROCESS, pid, min(19, s.nice+niceStep*level)))
	}
	s.logFailure(setIOPriority(pid, min(lowestIO, defaultIO+level)))
}

// Levels of the best-effort class of ioprio_set(2).
const (
	defaultIO = 4
	lowestIO  = 7
)

func setIOPriority(pid, level int) error {
	const process, bestEffort = 1, 2 << 13
	if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, process, uintptr(pid), uintptr(bestEffort|level)); errno != 0 {
		return errno
	}
	return nil
}

// logFailure logs an error: the program may have ended, or raising its priority may
// be denied.
func (s *shares) logFailure(err error) {
	if err != nil {
		s.b.cfg.Log.Debug("setting the priority of a program failed", "error", err)
	}
}
