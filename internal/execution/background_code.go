package execution

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// Writers write the code of executions that were stored without it.
type Writers struct {
	Solve   Solve   // nil means that tasks in words fail
	Compile Compile // nil means that stored workflows fail
}

// Compile returns the request for a run of the workflow that req names, as it is now.
type Compile func(ctx context.Context, h *home.Home, req Request) (Request, error)

// Solve solves a task in words: it writes programs and runs them with run.
type Solve func(ctx context.Context, h *home.Home, description string, req Request, run func(context.Context, Request) (reply.Result, error)) (*reply.Result, error)

// compileBackground adds the code of a workflow to a request, and stores it: what the workflow is
// changed to later does not matter.
func (r *Runner) compileBackground(ctx context.Context, h *home.Home, id string, b *BackgroundRequest, compile Compile) (err error) {
	if compile == nil {
		return fault.New(fault.Invalid, "this daemon does not run workflows")
	}
	if b.Request, err = compile(ctx, h, b.Request); err != nil {
		return err
	}
	b.Request.Background = true
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return h.Background.SetRequest(ctx, id, text)
}

// notCompiled ends an execution whose workflow cannot run, or lets it run later.
func (r *Runner) notCompiled(ctx context.Context, h *home.Home, id string, err error) error {
	if fault.KindOf(err) == fault.Unavailable {
		return r.backgroundNotRun(ctx, h, id, err)
	}
	why := fault.Message(err)
	if hint := fault.Hint(err); hint != "" {
		why += "; " + hint
	}
	return r.endBackground(ctx, h, id, journal.Unsuccessful, why)
}

// solveBackground solves a task in words. Each program is stored before it runs, so that it is
// resumed like other code; the outcome of a program that fails is final if the daemon ends before
// the next one.
func (r *Runner) solveBackground(ctx context.Context, h *home.Home, id string, b BackgroundRequest, solve Solve) error {
	if solve == nil {
		return r.endBackground(ctx, h, id, journal.Unsuccessful, "this daemon does not solve tasks in words")
	}
	run := func(ctx context.Context, req Request) (reply.Result, error) {
		req.Background, req.Timeout, req.MemoryMB = true, b.Request.Timeout, b.Request.MemoryMB
		text, err := json.Marshal(BackgroundRequest{Request: req, Task: b.Task})
		if err == nil {
			err = h.Background.SetRequest(ctx, id, text)
		}
		if err != nil {
			return reply.Result{}, err
		}
		x, err := r.launchBackground(ctx, h, &journal.BackgroundEntry{Execution: id, State: journal.Queued}, req, &background{attempt: true})
		if err != nil {
			return reply.Result{}, err
		}
		if e, err := h.Background.Find(context.WithoutCancel(ctx), id); err == nil && e.State != journal.Active && !x.run.result.Success() {
			return reply.Result{}, fault.New(fault.Unavailable, "the execution was cancelled or waits") // no other program follows
		}
		return x.run.result, x.run.err
	}
	last, err := solve(ctx, h, b.Task, b.Request, run)
	switch e, found := h.Background.Find(context.WithoutCancel(ctx), id); {
	case found != nil || e.State != journal.Active: // it has ended, or waits
		return nil
	case err != nil || last == nil:
		why := "no program was written"
		if err != nil {
			why = fault.Message(err)
			if hint := fault.Hint(err); hint != "" {
				why += "; " + hint
			}
		}
		return r.endBackground(ctx, h, id, journal.Unsuccessful, why)
	}
	text, err := json.Marshal(last)
	return errors.Join(err, h.Background.End(context.WithoutCancel(ctx), id, journal.Unsuccessful, text))
}
