package execution

import (
	"context"
	"sync"
)

// holder is whoever waits for an execution: when their context ends, so does it,
// unless it is parked.
type holder struct {
	hold   sync.Mutex
	cancel context.CancelCauseFunc
	let    func() bool // undoes the hold; nil while parked
}

// heldBy makes the end of ctx the end of the execution.
func (h *holder) heldBy(ctx context.Context) {
	h.hold.Lock()
	defer h.hold.Unlock()
	if h.let == nil {
		h.let = context.AfterFunc(ctx, func() { h.gone(ctx) })
	}
}

func (h *holder) gone(ctx context.Context) {
	h.hold.Lock()
	defer h.hold.Unlock()
	if h.let != nil {
		h.cancel(context.Cause(ctx))
	}
}

// park lets the execution outlive whoever waits for it.
func (h *holder) park() {
	h.hold.Lock()
	defer h.hold.Unlock()
	if h.let != nil {
		h.let()
		h.let = nil
	}
}

// free ends the hold, and the parking, of an execution that has ended.
func (h *holder) free() {
	h.park()
	h.hold.Lock()
	defer h.hold.Unlock()
	h.let = func() bool { return false }
}

func (h *holder) parked() bool {
	h.hold.Lock()
	defer h.hold.Unlock()
	return h.let == nil
}

// Park lets an execution with an open question outlive whoever waits for it;
// Attach takes it up again. It fails, and the execution ends with the context
// of its caller, if too many are parked.
func (r *Runner) Suspend(x *Execution) error {
	return r.book.park(x.run)
}
