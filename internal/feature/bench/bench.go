package bench

import (
	"context"
	"os/exec"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// bench is one run.
type bench struct {
	rig   *rig.Rig
	quick bool
	bare  string // path of the bare interpreter, once Python is installed
}

// choose returns quick in a quick run, and otherwise whole.
func choose[T any](b *bench, whole, quick T) T {
	if b.quick {
		return quick
	}
	return whole
}

// python returns a command that runs code in the bare interpreter.
func (b *bench) python(ctx context.Context, code string) *exec.Cmd {
	return exec.CommandContext(ctx, b.bare, "-I", "-S", "-c", code)
}

// timeBare measures one start of the bare interpreter with code.
func (b *bench) timeBare(ctx context.Context, code string) (time.Duration, error) {
	began := time.Now()
	_, err := b.python(ctx, code).Output()
	return time.Since(began), err
}
