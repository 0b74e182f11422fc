package execution

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// Solve solves a task in words: it writes programs and runs them. The result is that of the last
// one; nil if none ran.
type Solve func(ctx context.Context, h *home.Home, t BackgroundTask) (*reply.Result, error)

// BackgroundTask is a task in words for a Solve.
type BackgroundTask struct {
	Description string
	Request     Request // limits and subset of its programs
	// Run runs a program and waits for it.
	Run func(context.Context, Request) (reply.Result, error)
	// Progress stores what is being done, for get_background_task_status.
	Progress func(message string)
}

// solving is the state of a task between its programs.
type solving struct {
	mu      sync.Mutex
	message string
	news    bool
	runs    bool // a program runs, and stores its progress itself
}

func (s *solving) report(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.message, s.news = message, true
}

func (s *solving) setRuns(runs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs, s.news = runs, false
}

// take returns the message to store, or nil; waits is false while a program runs.
func (s *solving) take() (live []byte, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news && !s.runs {
		live, _ = json.Marshal(Live{Progress: &Progress{Message: s.message}})
		s.news = false
	}
	return live, !s.runs
}

// followSolving stores the progress of a task while none of its programs runs, and cancels it if
// that is requested, until ctx ends.
func (r *Runner) followSolving(ctx context.Context, cancel context.CancelCauseFunc, h *home.Home, id string, s *solving) {
	tick := time.NewTicker(liveInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		live, waits := s.take()
		if !waits {
			continue
		}
		cancelled, err := h.Runs.SetLive(context.WithoutCancel(ctx), id, live)
		if err != nil {
			r.cfg.Log.Warn("store the progress of a task", "execution", id, "error", err)
		}
		if cancelled {
			cancel(errByPerson)
		}
	}
}

// solveBackground solves a task in words. Each program is stored before it runs, so that it is
// resumed like other code; the outcome of a program that fails is final if the daemon ends before
// the next one.
func (r *Runner) solveBackground(ctx context.Context, h *home.Home, id string, b StoredRequest, solve Solve) error {
	if solve == nil {
		return r.endBackground(ctx, h, id, journal.Unsuccessful, "this daemon does not solve tasks in words")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var state solving
	var follower sync.WaitGroup
	follower.Go(func() { r.followSolving(ctx, cancel, h, id, &state) })
	last, err := solve(ctx, h, BackgroundTask{Description: b.Task, Request: b.Request, Progress: state.report,
		Run: func(ctx context.Context, req Request) (reply.Result, error) {
			state.setRuns(true)
			defer state.setRuns(false)
			return r.runProgram(ctx, h, id, b, req)
		}})
	cancelled := errors.Is(context.Cause(ctx), errByPerson)
	cancel(nil)
	follower.Wait()
	switch e, found := h.Runs.Find(context.WithoutCancel(ctx), id); {
	case found != nil || e.State != journal.Running: // it has ended, or waits
		return nil
	case cancelled:
		return r.endBackground(ctx, h, id, journal.Cancelled, "it was cancelled")
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
	return errors.Join(err, h.Journal.End(context.WithoutCancel(ctx), id, journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Result: text}))
}

// runProgram runs one program of a task and waits for it.
func (r *Runner) runProgram(ctx context.Context, h *home.Home, id string, b StoredRequest, req Request) (reply.Result, error) {
	if ctx.Err() != nil {
		return reply.Result{}, context.Cause(ctx)
	}
	req.Background, req.Timeout, req.MemoryMB = true, b.Request.Timeout, b.Request.MemoryMB
	text, err := json.Marshal(StoredRequest{Request: req, Task: b.Task})
	if err == nil {
		err = h.Runs.SetRequest(ctx, id, text)
	}
	if err != nil {
		return reply.Result{}, err
	}
	x, err := r.launchBackground(ctx, h, &journal.Run{Execution: id, State: journal.Queued}, req, &background{attempt: true, task: b.Task})
	if err != nil {
		return reply.Result{}, err
	}
	if e, err := h.Runs.Find(context.WithoutCancel(ctx), id); err == nil && e.State != journal.Running && !x.run.result.Success() {
		return reply.Result{}, fault.New(fault.Unavailable, "the execution was cancelled or waits") // no other program follows
	}
	return x.run.result, x.run.err
}
