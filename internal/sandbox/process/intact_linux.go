package process

import (
	"context"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// The keeper shows the interpreter's files to every sandbox. When somebody
// deletes them, imports fail in code that is right, so that failed imports and
// failed starts are reasons to look at the files.

// lookEvery bounds how often all files are looked at, since code chooses how
// often an import fails.
const lookEvery = 10 * time.Second

// files is what is known of the interpreter's files.
type files struct {
	mu      sync.Mutex
	damaged bool
	looked  time.Time
}

// intact reports whether the interpreter and the packages are as installed. Once
// they are not, the backend stays unusable.
func (b *Backend) intact(thorough bool) bool {
	f := &b.files
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.cfg.Intact == nil || f.damaged {
		return !f.damaged
	}
	if thorough = thorough && time.Since(f.looked) >= lookEvery; thorough {
		f.looked = time.Now()
	}
	f.damaged = !b.cfg.Intact(thorough)
	return !f.damaged
}

// spoiled reports whether code may have failed because files of the interpreter
// are missing.
func (b *Backend) spoiled(out sandbox.Outcome) bool {
	failed := out.Status == sandbox.Raised && (out.ErrorType == "ModuleNotFoundError" || out.ErrorType == "ImportError")
	return failed && !b.intact(true)
}

// damaged is the error of an operation that needs the files; what says what
// became of it.
func damaged(what string) error {
	return fault.Wrap(fault.Unavailable, sandbox.ErrDamaged, "files of Python or of its packages were deleted or changed in cache_dir, so that %s", what).
		WithHint("run the code again: they are being installed anew")
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
