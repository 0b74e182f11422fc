package execution

import (
	"context"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
)

// place is an execution's place in the queue. While all of its questions wait
// for a person, it belongs to others.
type place struct {
	queue *admit.Queue
	owner string
	told  func(admit.Position) // while it waits

	mu    sync.Mutex
	away  int    // questions that wait
	leave func() // of the queue
}

func (p *place) enter(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.take(ctx)
}

func (p *place) take(ctx context.Context) error {
	p.leave = func() {}
	leave, err := p.queue.Acquire(ctx, p.owner, p.told)
	if err == nil {
		p.leave = leave
	}
	return err
}

// rise gives the place away until as many sits have come.
func (p *place) rise() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away++; p.away == 1 {
		p.leave()
	}
}

// sit waits for a place again.
func (p *place) sit(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away--; p.away > 0 {
		return nil
	}
	return p.take(ctx)
}

// quit gives the place away for good.
func (p *place) quit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave()
}

// waits are what stands still while an execution waits for a person.
type waits struct {
	clock *clock.Clock
	place *place
}

func (w waits) pause() {
	w.clock.Pause()
	w.place.rise()
}

func (w waits) resume(ctx context.Context) error {
	defer w.clock.Resume()
	return w.place.sit(ctx)
}
