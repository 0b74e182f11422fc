package process

import (
	"context"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// All sandboxes share the interpreter's files. If they are deleted, imports fail in
// correct code, so failed imports and failed starts trigger a check of the files.

// checkInterval is the minimum time between thorough checks, since code controls how
// often an import fails.
const checkInterval = 10 * time.Second

// Integrity is the state of the interpreter's files. Other backends use it too.
type Integrity struct {
	// Check is Intact of Config; nil disables the check.
	Check func(thorough bool) bool

	mu      sync.Mutex
	damaged bool
	checked time.Time
}

// Intact reports whether the interpreter and the packages are unchanged. After it
// returns false once, it stays false and the backend unusable.
func (f *Integrity) Intact(thorough bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Check == nil || f.damaged {
		return !f.damaged
	}
	if thorough = thorough && time.Since(f.checked) >= checkInterval; thorough {
		f.checked = time.Now()
	}
	f.damaged = !f.Check(thorough)
	return !f.damaged
}

// FailedByDamage reports whether code may have failed because files of the interpreter
// are missing.
func (f *Integrity) FailedByDamage(out sandbox.Outcome) bool {
	failed := out.Status == sandbox.Raised && (out.ErrorType == "ModuleNotFoundError" || out.ErrorType == "ImportError")
	return failed && !f.Intact(true)
}

// Damaged returns the error of an operation that needs the files; effect describes the
// result.
func Damaged(effect string) error {
	return fault.Wrap(fault.Unavailable, sandbox.ErrDamaged, "files of Python or of its packages were deleted or changed in cache_dir: %s",
		effect).
		WithHint("run the code again: they are being reinstalled")
}

// Drain waits until no program runs, or ctx ends.
func (b *Backend) Drain(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for b.running.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
