package execution

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
)

// Start starts an execution and returns a handle on it at once; use Next to wait. The
// execution ends when its code ends or, unless it is suspended, when ctx does. The error
// is Invalid for an invalid request and Unavailable once the runner is closed.
func (r *Runner) Start(ctx context.Context, home *home.Home, req Request) (*Execution, error) {
	req, err := r.limitsOf(home.ID(), req).check(req)
	if err != nil {
		return nil, err
	}
	if err := takeExecution(ctx, home); err != nil {
		return nil, err
	}
	x := newRun(newID())
	x.session = req.SessionID
	if err := r.startRecord(x, home, req); err != nil {
		return nil, err
	}
	if err := beginWorkflow(ctx, home, x, req); err != nil {
		_ = x.record.End(ctx, journal.End{}) // nothing of it is on disk
		return nil, err
	}
	again, err := r.begin(ctx, home, x, req)
	if err != nil {
		_ = x.record.End(ctx, journal.End{}) // nothing of it is on disk
	}
	return again, err
}

// takeExecution counts an execution, or returns an error if a quota of the tenant is used up.
func takeExecution(ctx context.Context, home *home.Home) error {
	if err := home.Quotas.Check(ctx, quota.CPU); err != nil {
		return err
	}
	return home.Quotas.Take(ctx, quota.Executions)
}

// begin starts an execution whose request is valid.
func (r *Runner) begin(ctx context.Context, h *home.Home, x *run, req Request) (*Execution, error) {
	x.request = req
	return r.launch(ctx, h, x, func(ctx context.Context, h *home.Home) {
		newExecutor(r, h, x, req).execute(ctx)
	})
}

// launch runs do as the execution x; do must end x.
func (r *Runner) launch(ctx context.Context, home *home.Home, x *run, do func(context.Context, *home.Home)) (*Execution, error) {
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	x.cancel = cancel
	if !r.registry.register(home.ID(), x, &r.busy) {
		cancel(nil)
		return nil, fault.New(fault.Unavailable, "Sandpiper is stopping; no new execution can start").
			WithHint("try again in a moment")
	}
	home = home.Retain() // a suspended execution outlives the caller
	if x.background.Load() != nil {
		x.detached()
	}
	x.bindTo(ctx)
	go func() {
		defer r.busy.Done()
		defer cancel(nil)
		do(running, home)
		x.release()
		if err := home.Release(running); err != nil {
			r.cfg.Log.Error("release a home", "execution", x.id, "error", err)
		}
	}()
	return r.handle(x), nil
}

func (r *Runner) handle(x *run) *Execution {
	return &Execution{run: x, minInterval: r.cfg.ProgressEvery}
}

// Attach returns a handle on an execution of the same tenant that is running or has
// recently ended, and delivers answers to it; NotFound for any other. A suspended one is
// bound to ctx from now on. An invalid answer is an Invalid error and changes nothing.
func (r *Runner) Attach(ctx context.Context, home *home.Home, id string, a question.Answer) (*Execution, error) {
	x, err := findRun(r, home, id)
	if err != nil {
		return nil, err
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

func findRun(r *Runner, home *home.Home, id string) (*run, error) {
	if x := r.registry.find(home.ID(), id); x != nil {
		return x, nil
	}
	return nil, fault.New(fault.NotFound, "there is no execution %.60q that is running or has recently ended", id).
		WithHint("run the code again with execute_code")
}

// Questions returns the open questions of an execution of the tenant.
func (r *Runner) Questions(home *home.Home, id string) ([]question.Question, error) {
	x, err := findRun(r, home, id)
	if err != nil {
		return nil, err
	}
	open, _ := x.questions.List()
	return open, nil
}
