package upstream

import (
	"context"
	"sync"
)

// background runs functions on goroutines until it ends.
type background struct {
	run     func(f func(context.Context)) // runs f in a goroutine of work
	cancel  context.CancelFunc            // cancels the context of run
	closing <-chan struct{}               // closed by cancel

	mu    sync.Mutex
	ended bool
	work  sync.WaitGroup
}

func newBackground() *background {
	ctx, cancel := context.WithCancel(context.Background())
	b := &background{cancel: cancel, closing: ctx.Done()}
	b.run = func(f func(context.Context)) { b.work.Go(func() { f(ctx) }) }
	return b
}

// spawn runs f on a goroutine of work, with a context that end cancels. It reports false, without
// running f, after end.
func (b *background) spawn(f func(context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.run(f)
	}
	return !b.ended
}

// end cancels the context of all functions and prevents further ones.
func (b *background) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.cancel()
}

// isClosing reports whether end was called.
func (b *background) isClosing() bool {
	select {
	case <-b.closing:
		return true
	default:
		return false
	}
}
