// Package queue has the slot of an execution in the queue, which is free for others while the execution
// waits for a person, or for anything else that is not its own work.
package queue

import (
	"context"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
)

// Slot is the slot of an execution. It is safe for concurrent use.
type Slot struct {
	Queue      *admit.Queue
	Owner      string
	Background func() bool          // reports whether no caller waits for the execution
	Report     func(admit.Position) // called while it waits in the queue

	mu     sync.Mutex
	yields int    // open calls of yield
	leave  func() // leaves the queue
}

// Enter waits for the slot.
func (p *Slot) Enter(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.enterLocked(ctx)
}

func (p *Slot) enterLocked(ctx context.Context) error {
	p.leave = func() {}
	acquire := p.Queue.Acquire
	if p.Background() {
		acquire = p.Queue.AcquireBackground
	}
	leave, err := acquire(ctx, p.Owner, p.Report)
	if err == nil {
		p.leave = leave
	}
	return err
}

// yield frees the slot until reacquire has been called as often.
func (p *Slot) yield() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.yields++; p.yields == 1 {
		p.leave()
	}
}

// reacquire waits for a slot again.
func (p *Slot) reacquire(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.yields--; p.yields > 0 {
		return nil
	}
	return p.enterLocked(ctx)
}

// Release frees the slot for good.
func (p *Slot) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave()
}

// Pausable has the clock that stops, and the slot that is freed, while an execution waits.
type Pausable struct {
	Clock *clock.Clock
	Slot  *Slot
}

// Pause pauses the clock and frees the slot.
func (w Pausable) Pause() {
	w.Clock.Pause()
	w.Slot.yield()
}

// Resume waits for a slot again and resumes the clock. It fails only if ctx has ended.
func (w Pausable) Resume(ctx context.Context) error {
	defer w.Clock.Resume()
	return w.Slot.reacquire(ctx)
}
