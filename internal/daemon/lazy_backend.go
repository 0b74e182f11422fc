package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// lazyBackend is a backend that starts in the background: Python is extracted and the
// first zygote started while the daemon already serves. Open waits for it. A failed
// attempt is returned to all waiting callers, and the next Open tries again, because a
// cause such as a full disk may pass.
type lazyBackend struct {
	make  func() (sandbox.Backend, error) // until stop
	drain func(sandbox.Backend)           // until stop
	stop  context.CancelFunc

	replaced sync.WaitGroup // backends being closed

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

func newLazyBackend(make func(context.Context) (sandbox.Backend, error)) *lazyBackend {
	ctx, stop := context.WithCancel(context.Background())
	return &lazyBackend{
		make:  func() (sandbox.Backend, error) { return make(ctx) },
		drain: func(b sandbox.Backend) { drain(ctx, b) },
		stop:  stop,
	}
}

// start returns the current attempt, and starts one if there is none.
func (l *lazyBackend) start() (*attempt, error) {
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

func (l *lazyBackend) attempt(a *attempt) {
	defer close(a.done)
	a.backend, a.err = l.make()
	if a.err != nil {
		l.mu.Lock()
		l.try = nil
		l.mu.Unlock()
	}
}

// wait waits for the backend.
func (l *lazyBackend) wait(ctx context.Context) (sandbox.Backend, error) {
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
func (l *lazyBackend) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
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

// drainTime is how long a replaced backend may keep running executions.
const drainTime = 5 * time.Minute

// replace makes the next Open start another backend, and closes b when its executions
// have ended.
func (l *lazyBackend) replace(b sandbox.Backend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.try == nil {
		return
	}
	select {
	case <-l.try.done:
	default:
		return // replaced already
	}
	if l.try.backend != b {
		return
	}
	l.try = nil
	l.replaced.Go(func() {
		l.drain(b)
		_ = b.Close()
	})
}

// drain waits until the executions of a backend have ended, but not longer than
// drainTime.
func drain(ctx context.Context, b sandbox.Backend) {
	if d, ok := ability[interface{ Drain(context.Context) }](b); ok {
		ctx, cancel := context.WithTimeout(ctx, drainTime)
		defer cancel()
		d.Drain(ctx)
	}
}

// Probe implements sandbox.Prober. It reports a backend that does not start as a failed
// layer.
func (l *lazyBackend) Probe(ctx context.Context) sandbox.Report {
	b, err := l.wait(ctx)
	if err != nil {
		return sandbox.Report{Layers: []sandbox.Layer{{
			// with the cause: the report is for the operator
			Name: "backend", State: "failed", Required: true, Detail: err.Error(), Remedy: fault.Hint(err),
		}}}
	}
	if p, ok := ability[sandbox.Prober](b); ok {
		return p.Probe(ctx)
	}
	return sandbox.Report{Working: true}
}

// Close implements sandbox.Backend. It cancels a running attempt and waits for it.
func (l *lazyBackend) Close() error {
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
