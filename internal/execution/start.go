package execution

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
)

// Start starts an execution and returns a handle on it at once; use Next to wait. The
// execution ends when its code ends or, unless it is suspended, when ctx does. The error
// is Invalid for an invalid request and Unavailable once the runner is closed.
func (r *Runner) Start(ctx context.Context, home *home.Home, req Request) (*Execution, error) {
	req, err := r.Check(home.ID(), req)
	if err != nil {
		return nil, err
	}
	if err := quota.TakeExecution(ctx, home.Quotas); err != nil {
		return nil, err
	}
	return start(ctx, r, home, newRun(NewID(), StoredRequest{Request: req}, nil))
}

// start starts a run whose request is valid. If that fails, what is on disk of it is as before.
func start(ctx context.Context, r *Runner, h *home.Home, x *run) (*Execution, error) {
	e := newExecutor(r, h, x)
	err := startRecord(ctx, e)
	if err == nil {
		err = launch(ctx, e, e.execute)
	}
	if err != nil {
		return nil, x.giveUp(ctx, err)
	}
	return r.handle(x), nil
}

// startRecord starts the record of a run that may be resumed, unless it continues from one. That of a step
// of a session is for the session's log, and a dry run has no effects. The record of a workflow is on disk
// at once, so that it can be resumed if it is killed before its first call; a background execution is
// resumed without one.
func startRecord(ctx context.Context, e *executor) (err error) {
	x, req := e.run, e.run.Request
	switch {
	case x.internal || x.record != nil:
		return nil
	case req.Replay != nil && !req.Replay.RepeatCalls:
		x.record, err = e.home.Journal.ReplaySession(x.id, req.Replay.Record)
		return err
	case req.SessionID != "":
		x.record = e.home.Journal.NewSessionRecord(x.id)
	case !req.DryRun && pycode.NeedsRecord(req.Code, e.settings.Network, hostWords(e.r)...):
		x.Seed = make([]byte, seedBytes)
		_, _ = rand.Read(x.Seed) // never fails
		if x.record = e.home.Journal.NewRecord(x.id, func() ([]byte, error) { return json.Marshal(x.StoredRequest) },
			pycode.MayBeConcurrent(req.Code)); x.record == nil {
			x.Seed = nil
		}
	}
	if !keepsRun(req) {
		return nil
	}
	if x.background.Load() == nil {
		if err := x.record.Flush(ctx); err != nil {
			return err
		}
	}
	return journal.SetWorkflow(ctx, e.home.Runs, x.id, req.Workflow.Name, req.Workflow.Version)
}

// seedBytes is the length of the seed of a sandbox.Program.
const seedBytes = 32

// keepsRun reports whether the run of a request is kept when it has ended: that of a workflow.
func keepsRun(req Request) bool { return req.Workflow.Name != "" && !req.DryRun }

// giveUp leaves the record of a run that could not start as it was. It returns the error.
func (x *run) giveUp(ctx context.Context, err error) error {
	switch {
	case x.record == nil:
	case x.background.Load() != nil:
		x.record.Close()
	default:
		if wrong := x.record.End(ctx, journal.Before(x.record)); wrong != nil {
			err = errors.Join(err, wrong)
		}
	}
	return err
}

// checkTimeout limits one compilation.
const checkTimeout = 10 * time.Second

// runInternal runs code of Sandpiper with the limits of a compilation.
func runInternal(ctx context.Context, r *Runner, home *home.Home, code string, vars json.RawMessage) (reply.Result, error) {
	l := r.Limits(home.ID())
	own := newRun(NewID(), StoredRequest{Request: Request{Code: code, Vars: vars, Timeout: min(checkTimeout, l.MaxTimeout),
		MemoryMB: l.MemoryMB}}, nil)
	own.internal = true
	x, err := start(ctx, r, home, own)
	if err != nil {
		return reply.Result{}, err
	}
	select {
	case <-x.Ended():
		return x.Result()
	case <-ctx.Done():
		return reply.Result{}, context.Cause(ctx)
	}
}

// launch runs do, which must end the run, and binds the run to ctx.
func launch(ctx context.Context, e *executor, do func(context.Context)) error {
	r, x := e.r, e.run
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	x.cancel = cancel
	if !r.registry.register(e.home.ID(), x, &r.busy) {
		cancel(nil)
		return fault.New(fault.Unavailable, "Sandpiper is stopping; no new execution can start").
			WithHint("try again in a moment")
	}
	e.home = e.home.Retain() // a suspended execution outlives the caller
	if x.background.Load() != nil {
		x.detached()
		publish(ctx, r, e.home, x)
	}
	x.bindTo(ctx)
	go func() {
		defer r.busy.Done()
		defer cancel(nil)
		do(running)
		x.release()
		if err := e.home.Release(running); err != nil {
			r.cfg.Log.Error("release a home", "execution", x.id, "error", err)
		}
	}()
	return nil
}

func (r *Runner) handle(x *run) *Execution {
	return &Execution{run: x, minInterval: r.cfg.ProgressEvery}
}

// Attach returns a handle on an execution of the same tenant that is running or has
// recently ended, and delivers answers to it; NotFound for any other. A suspended one is
// bound to ctx from now on. An invalid answer is an Invalid error and changes nothing.
func (r *Runner) Attach(ctx context.Context, home *home.Home, id string, a question.Answer) (*Execution, error) {
	x := r.registry.find(home.ID(), id)
	if x == nil {
		return nil, fault.New(fault.NotFound, "there is no execution %.60q that is running or has recently ended", id).
			WithHint("run the code again with execute_code")
	}
	if err := x.questions.Answer(ctx, a); err != nil {
		return nil, err
	}
	if err := x.closeAnswered(ctx, home); err != nil {
		return nil, err
	}
	x.bindTo(ctx)
	return r.handle(x), nil
}

// Find returns a handle on an execution of the tenant that is running or completed in this process; nil if
// there is none: only Resume can continue it.
func (r *Runner) Find(h *home.Home, id string) *Execution {
	x := r.registry.find(h.ID(), id)
	if x == nil || x.interrupted() {
		return nil
	}
	return r.handle(x)
}
