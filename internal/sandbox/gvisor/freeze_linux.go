package gvisor

import (
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/stop"
)

// A sandbox is frozen by SIGSTOP to all processes that the kernel of the host sees. The sentry
// alone is not enough: its stub processes run code until the next system call.

// freezeState records how a box is frozen.
type freezeState struct {
	mu      sync.Mutex
	closed  bool          // no further freeze is allowed
	stopped *stop.Stopped // nil if it is not frozen
}

// Freeze implements sandbox.Freezer.
func (x *box) Freeze() error {
	s := &x.freeze
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || x.HasExited():
		return sandbox.ErrEnded
	case s.stopped != nil:
		return nil
	}
	var err error
	s.stopped, err = stop.All(x.Processes)
	return err
}

// Thaw implements sandbox.Freezer.
func (x *box) Thaw() error {
	s := &x.freeze
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || x.HasExited() {
		return sandbox.ErrEnded
	}
	s.stopped.Continue()
	s.stopped = nil
	return nil
}

func (s *freezeState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.stopped.Close()
	s.stopped = nil
}

// Processes returns the processes on the host: the gofer and the sentry hold the files.
func (x *box) Processes() []int { return process.Descendants(x.g.cmd.Process.Pid) }

// HasExited reports whether the sandbox has ended.
func (x *box) HasExited() bool { return x.g.sentry.hasExited() }

// Kill ends it.
func (x *box) Kill() { x.g.kill() }
