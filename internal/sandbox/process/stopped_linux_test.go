package process

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// zygoteNow returns the zygote that forks now.
func (b *Backend) zygoteNow() *zygote {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.zygote
}

// signal sends a signal to a zygote, which may be replaced at the same time.
func (z *zygote) signal(t *testing.T, sig unix.Signal) {
	t.Helper()
	z.mu.Lock()
	defer z.mu.Unlock()
	if err := unix.PidfdSendSignal(z.pidfd, sig, nil, 0); err != nil {
		t.Fatal(err)
	}
}

// runEight runs code for eight tenants at once, more than the pool contains, and
// fails unless each gets its result.
func (h *host) runEight(b *Backend) {
	h.t.Helper()
	var specs []sandbox.Spec
	for _, owner := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		specs = append(specs, h.spec(owner))
	}
	var wg sync.WaitGroup
	for _, spec := range specs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
			defer cancel()
			s, err := b.Open(ctx, spec)
			if err != nil {
				h.t.Errorf("%s: %v", spec.Owner, err)
				return
			}
			defer s.Close()
			if out, err := s.Run(ctx, sandbox.Program{Code: "6*7"}, sandbox.NoHost{}); err != nil || string(out.Result) != "42" {
				h.t.Errorf("%s: %+v %v", spec.Owner, out, err)
			}
		})
	}
	wg.Wait()
}

func TestStoppedZygoteIsReplaced(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	h := newHost(t)
	b := h.backend(nil)
	_, done := h.start(b, "z", "import time\nprint(1)\ntime.sleep(3)\nresult = 'whole'")
	z := b.zygoteNow()
	z.mu.Lock()
	z.timeout = time.Second
	z.mu.Unlock()
	z.signal(t, unix.SIGSTOP)
	h.runEight(b)
	if b.zygoteNow() == z {
		t.Error("the stopped zygote is still in use")
	}
	if out := <-done; string(out.Result) != `"whole"` {
		t.Errorf("the execution that ran meanwhile: %+v", out)
	}
}

func TestStoppedKeeperIsReplaced(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	h := newHost(t)
	b := h.backend(nil)
	k := b.currentKeeper()
	if err := k.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.runEight(b)
	if b.currentKeeper() == k {
		t.Error("the stopped keeper is still in use")
	}
}

func TestOpenEndsWithContext(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	b := h.backend(nil)
	z := b.zygoteNow()
	z.mu.Lock()
	z.timeout = time.Hour
	z.mu.Unlock()
	z.signal(t, unix.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for { // until the pool is empty
		s, err := b.Open(ctx, h.spec("a"))
		if err == nil {
			defer s.Close()
			continue
		}
		if fault.KindOf(err) != fault.Unavailable || !errors.Is(err, context.DeadlineExceeded) || fault.Hint(err) == "" {
			t.Errorf("Open: %v", err)
		}
		return
	}
}
