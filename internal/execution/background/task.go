package background

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// Solve solves a task in words: it writes programs and runs them. The result is that of the last
// one; nil if none ran.
type Solve func(ctx context.Context, h *home.Home, t Task) (*reply.Result, error)

// Task is a task in words for a Solve.
type Task struct {
	Description string
	Request     execution.Request // limits and subset of its programs
	// Run runs a program and waits for it.
	Run func(context.Context, execution.Request) (reply.Result, error)
	// Progress stores what is being done, for get_background_task_status.
	Progress func(message string)
}

// solving is the state of a task between its programs.
type solving struct {
	mu      sync.Mutex
	message string
	news    bool
	runs    bool // a program runs, and publishes its progress itself
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

// next returns the message to store, and whether there is one.
func (s *solving) next() (state live.State, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs || !s.news {
		return state, false
	}
	s.news = false
	return live.State{Progress: &live.Progress{Message: s.message}}, true
}

// solve solves a task in words. Each program is stored before it runs, so that it is resumed like other
// code; the outcome of a program that fails is final if the daemon ends before the next one.
func (c Claim) solve(ctx context.Context, b execution.StoredRequest) error {
	if c.Writers.Solve == nil {
		return c.end(ctx, journal.Unsuccessful, "this daemon does not solve tasks in words")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var state solving
	var publisher sync.WaitGroup
	publisher.Go(func() {
		live.Publisher{
			Runs:      c.Home.Runs,
			Execution: c.Execution,
			Next:      state.next,
			Questions: &question.Set{},
			Cancel:    cancel,
			Log:       c.Log,
		}.Run(ctx, ctx.Done())
	})
	last, err := c.Writers.Solve(ctx, c.Home, Task{Description: b.Task, Request: b.Request, Progress: state.report,
		Run: func(ctx context.Context, req execution.Request) (reply.Result, error) {
			state.setRuns(true)
			defer state.setRuns(false)
			return c.runProgram(ctx, b, req)
		}})
	cancelled := errors.Is(context.Cause(ctx), live.ErrCancelled)
	cancel(nil)
	publisher.Wait()
	switch e, found := c.Home.Runs.Find(context.WithoutCancel(ctx), c.Execution); {
	case found != nil || e.State != journal.Running: // it has ended, or waits
		return nil
	case cancelled:
		return c.end(ctx, journal.Cancelled, "it was cancelled")
	case err != nil:
		return c.end(ctx, journal.Unsuccessful, fault.Sentence(err))
	case last == nil:
		return c.end(ctx, journal.Unsuccessful, "no program was written")
	}
	return c.endWith(ctx, journal.Unsuccessful, *last)
}

// errNoMore ends a task of which no other program may run.
var errNoMore error = fault.New(fault.Unavailable, "the execution was cancelled or waits")

// runProgram runs one program of a task and waits for it.
func (c Claim) runProgram(ctx context.Context, b execution.StoredRequest, req execution.Request) (reply.Result, error) {
	if ctx.Err() != nil {
		return reply.Result{}, context.Cause(ctx)
	}
	req.Timeout, req.MemoryMB = b.Request.Timeout, b.Request.MemoryMB
	b.Request = req
	if err := c.store(ctx, &b); err != nil {
		return reply.Result{}, err
	}
	x, err := c.run(ctx, execution.Claimed{StoredRequest: b, Attempt: true})
	if x == nil {
		return reply.Result{}, cmp.Or(err, errNoMore)
	}
	res, err := x.Result()
	if e, found := c.Home.Runs.Find(context.WithoutCancel(ctx), c.Execution); found == nil && e.State != journal.Running && !res.Success() {
		return reply.Result{}, errNoMore
	}
	return res, err
}
