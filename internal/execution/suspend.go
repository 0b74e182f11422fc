package execution

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// lifetime ties an execution to the context of its caller, unless it is suspended.
type lifetime struct {
	lifeMu sync.Mutex
	cancel context.CancelCauseFunc
	detach func() bool // stops watching the caller's context; nil while suspended

	unbound  bool        // never bound or suspended
	outlived atomic.Bool // it was suspended or resumed: whoever asked for it may fetch the result later
}

// bindTo makes the execution end when ctx ends.
func (h *lifetime) bindTo(ctx context.Context) {
	h.lifeMu.Lock()
	defer h.lifeMu.Unlock()
	if h.detach == nil {
		h.detach = context.AfterFunc(ctx, func() { h.callerEnded(ctx) })
	}
}

// detached lets the execution outlive every caller: no context ends it.
func (h *lifetime) detached() {
	h.lifeMu.Lock()
	defer h.lifeMu.Unlock()
	if h.detach != nil {
		h.detach()
	}
	h.detach = func() bool { return false }
	h.unbound = true
}

func (h *lifetime) callerEnded(ctx context.Context) {
	h.lifeMu.Lock()
	defer h.lifeMu.Unlock()
	if h.detach != nil && !h.unbound {
		h.cancel(context.Cause(ctx))
	}
}

// suspend detaches the execution from its caller's context.
func (h *lifetime) suspend() {
	h.lifeMu.Lock()
	defer h.lifeMu.Unlock()
	if h.detach != nil && !h.unbound {
		h.detach()
		h.detach = nil
	}
}

// release detaches an execution that has ended; it no longer counts as suspended.
func (h *lifetime) release() {
	h.suspend()
	h.lifeMu.Lock()
	defer h.lifeMu.Unlock()
	h.detach = func() bool { return false }
}

func (h *lifetime) suspended() bool {
	h.lifeMu.Lock()
	defer h.lifeMu.Unlock()
	return h.detach == nil
}

// Suspend lets an execution with an open question outlive its caller; Attach takes it
// up again. If too many are suspended, Suspend fails and the execution stays bound to
// the context of its caller.
func (r *Runner) Suspend(x *Execution) error {
	err := r.registry.suspend(x.run)
	if err == nil {
		x.run.outlived.Store(true)
	}
	return err
}

// kept returns a handle on an execution that has ended and whose result is kept, nil if there is none.
func kept(ctx context.Context, r *Runner, h *home.Home, id string) (*Execution, error) {
	e, err := h.Runs.Find(ctx, id)
	if err != nil || e.State != journal.Ended || e.Result == nil || e.Recorded {
		return nil, nil // resuming returns the reason, or runs it again
	}
	x := newRun(id, StoredRequest{}, nil)
	if err := json.Unmarshal(e.Result, &x.result); err != nil {
		return nil, err
	}
	close(x.ended)
	return r.handle(x), nil
}
