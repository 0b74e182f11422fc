package gvisor

import (
	"context"
	"fmt"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// A sandbox is frozen by the kernel of the guest, through runsc. SIGSTOP to its processes on the
// host would be faster, but a stopped stub process makes the sentry kill the process of the guest.

// freezeState records whether a sandbox is frozen.
type freezeState struct {
	mu     sync.Mutex
	closed bool // no further freeze is allowed
	frozen bool
}

// Freeze implements sandbox.Freezer.
func (x *instance) Freeze() error { return x.setFrozen(true, "pause") }

// Thaw implements sandbox.Freezer.
func (x *instance) Thaw() error { return x.setFrozen(false, "resume") }

func (x *instance) setFrozen(frozen bool, command string) error {
	s := &x.freeze
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || x.HasExited():
		return sandbox.ErrEnded
	case s.frozen == frozen:
		return nil
	}
	if out, err := x.b.program.control(context.Background(), x.g.dir, command, x.g.id); err != nil {
		if x.HasExited() {
			return sandbox.ErrEnded
		}
		return fmt.Errorf("sandbox: runsc %s: %w: %.200s", command, err, out)
	}
	s.frozen = frozen
	return nil
}

func (s *freezeState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// Processes returns the process that holds the files: the sentry opens them itself (--directfs).
func (x *instance) Processes() []int { return []int{x.g.sentry.pid} }

// HasExited reports whether the sandbox has ended.
func (x *instance) HasExited() bool { return x.g.sentry.hasExited() }

// Kill ends it.
func (x *instance) Kill() { x.g.kill() }
