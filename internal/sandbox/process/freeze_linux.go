package process

import (
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/stop"
)

// A sandbox is frozen in one of two ways. A cgroup v2 freezes all its processes at
// once. Elsewhere each process receives SIGSTOP until all are stopped. The freezer of
// cgroup v1 is not used: a process frozen by it does not die of SIGKILL, so a daemon
// that is killed would leave its sandboxes behind.

// freezeState records how a box is frozen.
type freezeState struct {
	mu      sync.Mutex
	closed  bool          // no further freeze is allowed
	group   *group        // frozen; nil if there is none
	stopped *stop.Stopped // nil if there are none
}

// Freeze implements sandbox.Freezer.
func (x *box) Freeze() error {
	s := &x.freeze
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || x.w.hasExited():
		return sandbox.ErrEnded
	case s.group != nil || s.stopped != nil:
		return nil
	case x.w.group != nil && x.b.groups.canFreeze():
		s.group = x.w.group
		return s.group.freeze(true)
	}
	var err error
	s.stopped, err = stop.All(x.w.pids)
	return err
}

// Thaw implements sandbox.Freezer.
func (x *box) Thaw() error {
	s := &x.freeze
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || x.w.hasExited() {
		return sandbox.ErrEnded
	}
	if s.group != nil {
		g := s.group
		s.group = nil
		return g.freeze(false)
	}
	s.stopped.Continue()
	s.stopped = nil
	return nil
}

// close prevents further freezes, since the group may be reused. Stopped processes
// are killed without a SIGCONT.
func (s *freezeState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.stopped.Close()
	s.stopped = nil
}

// pids lists the processes of the worker.
func (w *process) pids() []int {
	if w.group != nil {
		return w.group.pids()
	}
	if pid := w.hostPID(); pid > 0 {
		return descendants(pid, nil)
	}
	return nil
}
