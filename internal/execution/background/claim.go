package background

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Writers write the code of executions that were stored without it.
type Writers struct {
	Solve   Solve   // nil means that tasks in words fail
	Compile Compile // nil means that stored workflows wait
}

// Compile returns the request for a run of the workflow that req names, as it is now.
type Compile func(ctx context.Context, h *home.Home, req execution.Request) (execution.Request, error)

// Claim is an execution that this process has claimed.
type Claim struct {
	*journal.Run
	Home    *home.Home
	Runner  *execution.Runner
	Writers Writers
	Log     *slog.Logger
}

// Do runs the execution, until it ends or waits without a worker. What it returns is for the log.
func (c Claim) Do(ctx context.Context) error {
	var b execution.StoredRequest
	if c.Cancelled { // its process has ended before it saw that
		return execution.EndCancelled(ctx, c.Home, c.Execution)
	}
	if err := json.Unmarshal(c.Request, &b); err != nil {
		return errors.Join(err, c.end(ctx, journal.Unsuccessful, "the request of the execution cannot be read"))
	}
	if c.State == journal.Running { // its process has ended
		switch {
		case c.Result != nil:
			return c.Home.Journal.End(ctx, c.Execution, journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Forget: true})
		case c.OnRestart == journal.ReportOnRestart:
			return c.end(ctx, journal.Interrupted, "Sandpiper stopped while it was running")
		}
	}
	if b.Uncounted && c.State == journal.Queued { // Dispatch has counted others
		if err := quota.TakeExecution(ctx, c.Home.Quotas); err != nil {
			return c.end(ctx, journal.Unsuccessful, fault.Message(err))
		}
	}
	switch {
	case b.Request.Code != "":
	case b.Task != "":
		return c.solve(ctx, b)
	case b.Request.Workflow.Name != "":
		if err := c.compile(ctx, &b); fault.KindOf(err) == fault.Unavailable {
			return c.notRun(ctx, err)
		} else if err != nil {
			return c.end(ctx, journal.Unsuccessful, fault.Sentence(err))
		}
	}
	_, err := c.run(ctx, execution.Claimed{StoredRequest: b, Recorded: c.State == journal.Waiting})
	return err
}

// run runs code and waits for its end.
func (c Claim) run(ctx context.Context, code execution.Claimed) (*execution.Execution, error) {
	code.ID = c.Execution
	x, err := c.Runner.Continue(ctx, c.Home, code)
	if err != nil {
		return nil, c.notRun(ctx, err)
	}
	<-x.Ended()
	return x, nil
}

// compile adds the code of a workflow to a request, and stores it: what the workflow is changed to later
// does not matter.
func (c Claim) compile(ctx context.Context, b *execution.StoredRequest) (err error) {
	if c.Writers.Compile == nil {
		return fault.New(fault.Unavailable, "this program has no workflows")
	}
	if b.Request, err = c.Writers.Compile(ctx, c.Home, b.Request); err != nil {
		return err
	}
	return c.store(ctx, b)
}

// store replaces the stored request by one that has code.
func (c Claim) store(ctx context.Context, b *execution.StoredRequest) error {
	b.Request.Background = true
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return c.Home.Runs.SetRequest(ctx, c.Execution, text)
}

// notRun stores that the execution could not run, or lets it run later.
func (c Claim) notRun(ctx context.Context, err error) error {
	switch fault.KindOf(err) {
	case fault.Unavailable:
		return errors.Join(err, c.Home.Journal.End(context.WithoutCancel(ctx), c.Execution, execution.RunLater()))
	case fault.NotFound:
		return c.end(ctx, journal.Interrupted, "its record was deleted")
	}
	return c.end(ctx, journal.Interrupted, fault.Message(err))
}

// end ends an execution that did not run with an explanation.
func (c Claim) end(ctx context.Context, o journal.RunOutcome, why string) error {
	return c.endWith(ctx, o, reply.Result{Status: sandbox.Cancelled,
		Failure: reply.Failure{ErrorType: string(o), Error: "Execution did not complete: " + why},
		Details: reply.Details{Output: []string{}, ExecutionID: c.Execution}})
}

// endWith ends an execution with a result.
func (c Claim) endWith(ctx context.Context, o journal.RunOutcome, res reply.Result) error {
	text, err := json.Marshal(res)
	return errors.Join(err, c.Home.Journal.End(context.WithoutCancel(ctx), c.Execution,
		journal.End{State: journal.Ended, Outcome: o, Result: text}))
}
