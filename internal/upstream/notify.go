package upstream

import (
	"context"
	"sync"
	"time"
)

// notifier calls a function in the background: one call at a time, at most one per second.
type notifier struct {
	call  func(context.Context)
	spawn func(f func(context.Context)) bool
	ended func() bool // whether no further call is made

	mu             sync.Mutex
	running, again bool // whether call is running, and whether to call it again
}

func (n *notifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.again = true
	if n.running {
		return
	}
	n.running = n.spawn(func(ctx context.Context) {
		for n.next() {
			n.call(ctx)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	})
}

// next reports whether to call the function again.
func (n *notifier) next() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	more := n.again && !n.ended()
	n.again, n.running = false, more
	return more
}
