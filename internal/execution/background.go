package execution

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// background is the state of a run that no caller waits for.
type background struct {
	attempt bool // a failure does not end it: another program may follow
	output  live.Output
}

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

// Claimed is a background execution that this process has claimed.
type Claimed struct {
	ID string
	StoredRequest
	Attempt  bool // a failure does not end it: another program may follow
	Recorded bool // it cannot continue without its record
}

// Continue runs a background execution from its record, or from the beginning if it has none: nothing of it
// can have had an effect then.
func (r *Runner) Continue(ctx context.Context, h *home.Home, c Claimed) (*Execution, error) {
	b := &background{attempt: c.Attempt}
	x, err := replay(ctx, r, h, c.ID, b)
	if fault.KindOf(err) != fault.NotFound || c.Recorded {
		return x, err
	}
	if c.Request, err = r.Check(h.ID(), c.Request); err != nil {
		return nil, err
	}
	return start(ctx, r, h, newRun(c.ID, c.StoredRequest, b))
}

// Detach makes a running execution a background execution, which outlives its caller. It returns
// false, and changes nothing, if the execution has ended, is a step of a session, a dry run or a
// plan.
func (r *Runner) Detach(ctx context.Context, h *home.Home, e *Execution) (bool, error) {
	x := e.run
	x.promoting.Lock()
	defer x.promoting.Unlock()
	if x.finishing || x.Request.SessionID != "" || x.Request.Code == "" || x.Request.DryRun || x.Request.Tape != nil {
		return false, nil
	}
	if x.background.Load() != nil {
		return true, nil
	}
	if err := addRun(ctx, h, x); err != nil {
		return false, err
	}
	x.background.Store(&background{})
	x.detached()
	publish(ctx, r, h, x)
	return true, nil
}

// addRun stores that x is a background execution from now on.
func addRun(ctx context.Context, h *home.Home, x *run) error {
	request, err := json.Marshal(x.StoredRequest)
	if err != nil {
		return err
	}
	return h.Runs.Add(ctx, journal.Run{Execution: x.id, State: journal.Running, OnRestart: journal.ResumeOnRestart, Request: request})
}

// publish stores the state of a background execution for other processes until it has ended, and takes their requests.
func publish(ctx context.Context, r *Runner, h *home.Home, x *run) {
	last := 0
	p := publisher(r, h, x)
	p.Next = func() (s live.State, news bool) {
		p, n, _ := x.latest()
		s.Output, news = x.background.Load().output.Take()
		if n > 0 {
			s.Progress = &p
		}
		news, last = news || n > last, n
		return s, news
	}
	h = h.Retain()
	r.busy.Go(func() { // counted while x is
		ctx := context.WithoutCancel(ctx)
		p.Run(ctx, x.ended)
		if err := h.Release(ctx); err != nil {
			r.cfg.Log.Error("release a home", "execution", x.id, "error", err)
		}
	})
}

// publisher returns the Publisher of a background execution, without what it publishes.
func publisher(r *Runner, h *home.Home, x *run) live.Publisher {
	return live.Publisher{
		Runs:      h.Runs,
		Execution: x.id,
		Questions: &x.questions,
		Replays:   x.record.Replays,
		Cancel:    x.cancel,
		Log:       r.cfg.Log,
	}
}

// liveState returns what other processes see of a run, with its open questions.
func (x *run) liveState(open []question.Question) live.State {
	s := live.State{Questions: open}
	if p, n, _ := x.latest(); n > 0 {
		s.Progress = &p
	}
	if b := x.background.Load(); b != nil {
		s.Output, _ = b.output.Take()
	}
	return s
}

// Cancel cancels a background execution. If this process runs it, its tool calls are
// cancelled at once; another process does so soon.
func (r *Runner) Cancel(ctx context.Context, h *home.Home, id string) error {
	if err := h.Runs.Cancel(ctx, id); err != nil {
		return err
	}
	if x := r.registry.find(h.ID(), id); x != nil && x.background.Load() != nil {
		x.cancel(live.ErrCancelled)
	}
	if e, err := h.Runs.Find(ctx, id); err != nil || e.State != journal.Ended {
		return nil
	}
	return withdrawApprovals(ctx, h, id)
}

// EndCancelled ends an execution that was cancelled, and whose process ended before it saw that.
func EndCancelled(ctx context.Context, h *home.Home, id string) error {
	err := h.Journal.End(context.WithoutCancel(ctx), id, journal.End{State: journal.Ended, Outcome: journal.Cancelled, Forget: true})
	return errors.Join(err, withdrawApprovals(ctx, h, id))
}

// withdrawApprovals withdraws what a cancelled execution asks a person to approve.
func withdrawApprovals(ctx context.Context, h *home.Home, id string) error {
	if h.Approvals == nil {
		return nil
	}
	return approval.WithdrawAll(context.WithoutCancel(ctx), h.Approvals, id)
}

// Signal sends a signal to an execution of the tenant.
func (r *Runner) Signal(ctx context.Context, h *home.Home, id, event string, value json.RawMessage) error {
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	if err := live.CheckEvent(event, value); err != nil {
		return err
	}
	if x := r.registry.find(h.ID(), id); x != nil && x.record != nil && !x.hasEnded() {
		if err := x.record.Flush(ctx); err != nil { // so that other processes know it
			return err
		}
	}
	return h.Runs.Signal(ctx, id, event, value)
}
