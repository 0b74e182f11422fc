package execution

import (
	"context"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
)

// queueSlot is an execution's slot in the queue. While the execution waits for the
// user, the slot is free for others.
type queueSlot struct {
	queue      *admit.Queue
	owner      string
	background func() bool          // whether no caller waits for the execution
	report     func(admit.Position) // called while it waits in the queue

	mu     sync.Mutex
	yields int    // open calls of yield
	leave  func() // leaves the queue
}

func (p *queueSlot) enter(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.enterLocked(ctx)
}

func (p *queueSlot) enterLocked(ctx context.Context) error {
	p.leave = func() {}
	acquire := p.queue.Acquire
	if p.background() {
		acquire = p.queue.AcquireBackground
	}
	leave, err := acquire(ctx, p.owner, p.report)
	if err == nil {
		p.leave = leave
	}
	return err
}

// yield frees the slot until reacquire has been called as often.
func (p *queueSlot) yield() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.yields++; p.yields == 1 {
		p.leave()
	}
}

// reacquire waits for a slot again.
func (p *queueSlot) reacquire(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.yields--; p.yields > 0 {
		return nil
	}
	return p.enterLocked(ctx)
}

// release frees the slot for good.
func (p *queueSlot) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave()
}

// pausable pauses the clock and frees the slot while an execution waits for the user.
type pausable struct {
	clock *clock.Clock
	slot  *queueSlot
}

func (w pausable) pause() {
	w.clock.Pause()
	w.slot.yield()
}

func (w pausable) resume(ctx context.Context) error {
	defer w.clock.Resume()
	return w.slot.reacquire(ctx)
}
