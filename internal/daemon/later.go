package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// later is a backend that is still being made: Python unpacks and the first
// zygote warms while the daemon already answers. Whoever opens a sandbox waits
// for it. An attempt that failed is told to everybody who waited, and the next
// Open tries again: a full disk does not last for ever.
type later struct {
	make func(context.Context) (sandbox.Backend, error)
	ctx  context.Context // of all attempts, not of a request; ended by Close
	stop context.CancelFunc

	replaced sync.WaitGroup // backends that are being closed

	mu     sync.Mutex
	try    *attempt // nil before the first and after a failed one
	closed bool
}

// attempt is one run of make.
type attempt struct {
	done    chan struct{} // closed when the fields below are set
	backend sandbox.Backend
	err     error
}

var errClosed = fault.New(fault.Unavailable, "Sandpiper is stopping")

func newLater(make func(context.Context) (sandbox.Backend, error)) *later {
	ctx, stop := context.WithCancel(context.Background())
	return &later{make: make, ctx: ctx, stop: stop}
}

// start begins an attempt if none runs or succeeded, and returns the current.
func (l *later) start() (*attempt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if l.try == nil {
		l.try = &attempt{done: make(chan struct{})}
		go l.attempt(l.try)
	}
	return l.try, nil
}

func (l *later) attempt(a *attempt) {
	defer close(a.done)
	a.backend, a.err = l.make(l.ctx)
	if a.err != nil {
		l.mu.Lock()
		l.try = nil
		l.mu.Unlock()
	}
}

// wait returns the backend as soon as there is one.
func (l *later) wait(ctx context.Context) (sandbox.Backend, error) {
	a, err := l.start()
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
		return a.backend, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Open implements sandbox.Backend.
func (l *later) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	b, err := l.wait(ctx)
	if err != nil {
		return nil, err
	}
	s, err := b.Open(ctx, spec)
	if !errors.Is(err, sandbox.ErrDamaged) {
		return s, err
	}
	l.replace(b)
	if b, err = l.wait(ctx); err != nil {
		return nil, err
	}
	return b.Open(ctx, spec)
}

// drainTime is how long programs may run on in a backend that is replaced.
const drainTime = 5 * time.Minute

// replace lets the next attempt make another backend, and closes b once nothing
// runs there any more.
func (l *later) replace(b sandbox.Backend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.try == nil {
		return
	}
	select {
	case <-l.try.done:
	default:
		return // somebody else has replaced it
	}
	if l.try.backend != b {
		return
	}
	l.try = nil
	l.replaced.Go(func() {
		if d, ok := b.(interface{ Drain(context.Context) }); ok {
			ctx, cancel := context.WithTimeout(l.ctx, drainTime)
			defer cancel()
			d.Drain(ctx)
		}
		_ = b.Close()
	})
}

// Probe implements sandbox.Prober. A backend that could not be made is a layer
// that failed.
func (l *later) Probe(ctx context.Context) sandbox.Report {
	b, err := l.wait(ctx)
	if err != nil {
		return sandbox.Report{Layers: []sandbox.Layer{{
			Name: "backend", State: "failed", Required: true, Detail: fault.Message(err), Remedy: fault.Hint(err),
		}}}
	}
	if p, ok := b.(sandbox.Prober); ok {
		return p.Probe(ctx)
	}
	return sandbox.Report{Working: true}
}

// Close implements sandbox.Backend. It ends an attempt under way and waits for
// it, so that nothing is made after it.
func (l *later) Close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	a := l.try
	l.mu.Unlock()
	l.stop()
	defer l.replaced.Wait()
	if !first || a == nil {
		return nil
	}
	<-a.done
	if a.backend == nil {
		return nil
	}
	return a.backend.Close()
}
