package daemon

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

var spec = sandbox.Spec{Owner: "a", Mounts: []sandbox.Mount{{Target: "/workspace", Root: "w", Name: "a"}}}

func TestOpenWaitsForSharedBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		l := newLazyBackend(func(context.Context) (sandbox.Backend, error) {
			time.Sleep(time.Second)
			made++
			return fake.New(fake.Config{}), nil
		})
		errs := make(chan error)
		for range 3 {
			go func() {
				_, err := l.Open(t.Context(), spec)
				errs <- err
			}()
		}
		for range 3 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if made != 1 {
			t.Errorf("made %d backends", made)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := l.Open(t.Context(), spec); !errors.Is(err, errClosed) {
			t.Errorf("Open after Close: %v", err)
		}
	})
}

func TestFailedStartIsReturnedAndRetried(t *testing.T) {
	full := errors.New("disk full")
	l := newLazyBackend(nil)
	defer l.Close()
	l.make = func() (sandbox.Backend, error) { return nil, full }
	if _, err := l.Open(t.Context(), spec); !errors.Is(err, full) {
		t.Errorf("Open = %v", err)
	}
	if r := l.Probe(t.Context()); r.Working || len(r.Layers) != 1 || r.Layers[0].State != "failed" {
		t.Errorf("Probe = %+v", r)
	}
	l.make = func() (sandbox.Backend, error) { return fake.New(fake.Config{}), nil }
	if _, err := l.Open(t.Context(), spec); err != nil {
		t.Errorf("Open after the cause is gone: %v", err)
	}
}

func TestCloseCancelsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLazyBackend(func(ctx context.Context) (sandbox.Backend, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Open(ctx, spec); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Open = %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// spoilt is a backend whose files were deleted.
type spoilt struct {
	sandbox.Backend
	closed, drained chan struct{}
}

func (s spoilt) Open(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	return nil, fmt.Errorf("opening: %w", sandbox.ErrDamaged)
}
func (s spoilt) Drain(context.Context) { close(s.drained) }
func (s spoilt) Close() error          { <-s.drained; close(s.closed); return nil }

func TestDamagedBackendIsReplacedOnce(t *testing.T) {
	bad := spoilt{closed: make(chan struct{}), drained: make(chan struct{})}
	made := 0
	l := newLazyBackend(func(context.Context) (sandbox.Backend, error) {
		if made++; made == 1 {
			return bad, nil
		}
		return fake.New(fake.Config{}), nil
	})
	errs := make(chan error)
	for range 4 {
		go func() {
			_, err := l.Open(t.Context(), spec)
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Errorf("Open: %v", err)
		}
	}
	if made != 2 {
		t.Errorf("made %d backends, want 2", made)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-bad.closed:
	default:
		t.Error("the damaged backend was not closed")
	}
}
