package process

import (
	"math/bits"
	"sync"

	"golang.org/x/sys/unix"
)

// shares divides the processors among owners: the programs of one together weigh as
// much as those of any other, however many they are. Where groups have weights, each
// program has a part of its owner's; elsewhere the more programs an owner runs, the
// less urgent are those that it starts, for the processors (nice) and for the disk
// (ioprio). Parts are powers of two, so that most starts and ends change nothing.
type shares struct {
	b    *Backend
	nice int // of the daemon, and so of workers

	mu      sync.Mutex
	running map[string]map[*process]bool // by owner
}

func newShares(b *Backend) *shares {
	s := &shares{b: b, running: map[string]map[*process]bool{}}
	if p, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		s.nice = 20 - p // what the system call returns is never negative
	}
	return s
}

// parts is into how many parts the share of an owner is divided that runs n programs.
func parts(n int) int {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len(uint(n-1))
}

// begin counts a program in that w runs for owner; done counts it out.
func (s *shares) begin(owner string, w *process) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.running[owner]
	if all == nil {
		all = map[*process]bool{}
		s.running[owner] = all
	}
	all[w] = true
	s.settle(all)
	s.urge(w, len(all))
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(all, w)
		s.settle(all)
		if len(all) == 0 {
			delete(s.running, owner)
		}
		if w.group != nil {
			s.failed(s.b.groups.divide(w.group, 1))
		}
	}
}

// settle gives the programs of an owner equal parts.
func (s *shares) settle(all map[*process]bool) {
	for w := range all {
		if w.group != nil {
			s.failed(s.b.groups.divide(w.group, parts(len(all))))
		}
	}
}

// niceStep halves a weight, about: three levels of nice are 1.95.
const niceStep = 3

// urge sets how urgent the nth program of its owner is. Whatever it starts inherits
// that. Only root can make a process more urgent again, which matters for living
// interpreters.
func (s *shares) urge(w *process, n int) {
	level := bits.Len(uint(parts(n))) - 1
	if level == w.level {
		return
	}
	pid := w.hostPID()
	if pid <= 0 {
		return
	}
	w.level = level
	if !s.b.groups.weighs {
		s.failed(unix.Setpriority(unix.PRIO_PROCESS, pid, min(19, s.nice+niceStep*level)))
	}
	s.failed(setIOPriority(pid, min(lowestIO, usualIO+level)))
}

// Levels of the best-effort class of ioprio_set(2).
const (
	usualIO  = 4
	lowestIO = 7
)

func setIOPriority(pid, level int) error {
	const process, bestEffort = 1, 2 << 13
	if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, process, uintptr(pid), uintptr(bestEffort|level)); errno != 0 {
		return errno
	}
	return nil
}

// failed logs what could not be set: the program may have ended, or may not be made
// more urgent.
func (s *shares) failed(err error) {
	if err != nil {
		s.b.cfg.Log.Debug("the priority of a program could not be set", "error", err)
	}
}
