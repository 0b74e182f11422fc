package execution

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// promotion orders the change of a running execution to a background execution and its end.
type promotion struct {
	promoting sync.Mutex
	finishing bool
}

func (p *promotion) endPromotion() {
	p.promoting.Lock()
	defer p.promoting.Unlock()
	p.finishing = true
}

// Detach makes a running execution a background execution, which outlives its caller. It returns
// false, and changes nothing, if the execution has ended, is a step of a session, a dry run or a
// plan.
func (r *Runner) Detach(ctx context.Context, h *home.Home, e *Execution) (bool, error) {
	x := e.run
	x.promoting.Lock()
	defer x.promoting.Unlock()
	if x.finishing || x.session != "" || x.request.Code == "" || x.request.DryRun || x.request.Tape != nil {
		return false, nil
	}
	if x.background.Load() != nil {
		return true, nil
	}
	request, err := json.Marshal(StoredRequest{Request: x.request})
	if err != nil {
		return false, err
	}
	err = h.Runs.Add(ctx, journal.Run{Execution: x.id, State: journal.Running, OnRestart: journal.ResumeOnRestart, Request: request})
	if err != nil {
		return false, err
	}
	x.background.Store(&background{})
	x.detached()
	kept := h.Retain()
	r.busy.Go(func() { // counted while x is
		ctx := context.WithoutCancel(ctx)
		r.follow(ctx, kept, r.handle(x))
		if err := kept.Release(ctx); err != nil {
			r.cfg.Log.Error("release a home", "execution", x.id, "error", err)
		}
	})
	return true, nil
}
