package mcpserver

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/task"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// solverTools are the tools for tasks in words.
type solverTools struct{ *Server }

func (s solverTools) all() []builtin.Tool {
	if s.cfg.Tasks == nil {
		return nil
	}
	threshold := builtin.Param{Name: "threshold", Kind: builtin.Number, Default: task.DefaultThreshold}
	topK := builtin.Param{Name: "top_k", Kind: builtin.Integer, Default: task.DefaultTopK}
	return []builtin.Tool{{
		Name: "execute_task", Profile: builtin.Full,
		Description: "Solve a task described in words: selects tools, writes a program and runs it. State every value in the description; quote texts.",
		Params: []builtin.Param{
			{Name: "task_description", Kind: builtin.Text, Required: true},
			{Name: "verbose", Kind: builtin.Boolean, Default: false, Description: "Return failed programs too"},
			threshold, topK,
			{Name: "session_id", Kind: builtin.Text, Source: sessionIDs},
		},
		MaxChars: 100_000,
		Hints:    wire.Hints{Destructive: true},
		Run:      s.executeTask,
	}, {
		Name: "select_tools", Profile: builtin.Full,
		Description: "Select the few tools that a task in words needs.",
		Params: []builtin.Param{
			{Name: "task_description", Kind: builtin.Text, Required: true},
			{Name: "threshold", Kind: builtin.Number, Default: task.DefaultThreshold, Description: "Least score, up to 1"},
			topK,
		},
		Hints: wire.Hints{ReadOnly: true, Idempotent: true},
		Run:   s.selectTools,
	}}
}

func (s solverTools) selectTools(ctx context.Context, c builtin.Call) (redact.Message, error) {
	var args queryArgs
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	q, err := args.query()
	if err != nil {
		return redact.Message{}, err
	}
	selected, err := s.cfg.Tasks.Select(ctx, catalog.Viewer{Tenant: c.Home.ID(), Subset: c.Subset}, c.Home.Skills, q)
	return redact.Message{Body: selected}, err
}

// queryArgs are the arguments that select tools.
type queryArgs struct {
	Task      string   `json:"task_description"`
	Threshold *float64 `json:"threshold"`
	TopK      *float64 `json:"top_k"`
}

func (a queryArgs) query() (task.Query, error) {
	q := task.Query{Task: a.Task}
	var topK *int
	if a.TopK != nil {
		topK = new(int(toInt64(*a.TopK)))
	}
	return q, q.Set(a.Threshold, topK)
}

type taskArgs struct {
	queryArgs
	Verbose bool   `json:"verbose"`
	Session string `json:"session_id"`
}

func (s solverTools) executeTask(ctx context.Context, c builtin.Call) (redact.Message, error) {
	if isWaitingTask(c.State) {
		return s.continueTask(ctx, c)
	}
	if c.State != "" {
		return follower(s).answered(ctx, c)
	}
	var args taskArgs
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	if s.cfg.Tasks.Samples() && c.RequireSample != nil {
		return s.startTask(ctx, c, args)
	}
	t := &runningTask{server: s.Server, call: c}
	if c.Sample != nil {
		t.ask = func(ctx context.Context, p wire.Prompt) (wire.Sampled, error) { return t.call.Sample(ctx, p) }
	}
	return t.solve(ctx, args)
}

// runningTask is a task that is being solved.
type runningTask struct {
	server    *Server
	call      builtin.Call // the call that waits for it
	suspended *redact.Message
	ask       func(context.Context, wire.Prompt) (wire.Sampled, error) // nil if the client has no model
}

// solve solves the task and returns the answer to the call.
func (t *runningTask) solve(ctx context.Context, args taskArgs) (redact.Message, error) {
	query, err := args.query()
	if err != nil {
		return redact.Message{}, err
	}
	of := task.Task{
		Query: query, Home: t.call.Home, Gate: t.call.ModelGate(), Request: execution.Request{Subset: t.call.Subset, Client: t.call.Client, SessionID: args.Session},
		Progress: func(message string) { follower{t.server}.progress(ctx, t.call, live.Progress{Message: message}) },
		Run:      t.run,
	}
	if t.ask != nil {
		of.Sample = t.sample
	}
	result, err := t.server.cfg.Tasks.Solve(ctx, of)
	switch {
	case err != nil:
		return redact.Message{}, err
	case t.suspended != nil:
		return *t.suspended, nil
	}
	if !args.Verbose {
		result.Attempts = nil
	}
	m := redact.Message{Body: result, Failed: !result.Success}
	if last := result.Last; last != nil {
		m = message(*last, t.call.Commands)
		m.Body = result
	}
	return m, nil
}

// run runs a program of the task.
func (t *runningTask) run(ctx context.Context, req execution.Request) (reply.Result, error) {
	x, err := t.server.cfg.Runner.Start(ctx, t.call.Home, req)
	if err != nil {
		return reply.Result{}, err
	}
	done, waits, err := follower{t.server}.followResult(ctx, t.call, x)
	if done == nil && err == nil {
		t.suspended = &waits
		return reply.Result{Failure: reply.Failure{ErrorType: reply.TypeApproval}}, nil
	}
	if done == nil {
		return reply.Result{}, err
	}
	return *done, nil
}

// sample asks the client's model, which may be another one than that of the conversation.
func (t *runningTask) sample(ctx context.Context, p task.Prompt) (task.Sampled, error) {
	text, err := t.call.ModelGate().Redact(ctx, p.Text)
	if err != nil {
		return task.Sampled{}, err
	}
	s, err := t.ask(ctx, wire.Prompt{System: p.System, Text: text, MaxTokens: p.MaxTokens, Model: p.Model})
	if err != nil && ctx.Err() == nil && fault.KindOf(err) == fault.Internal {
		t.server.cfg.Log.Debug("the client's model was not asked", "error", err)
		err = fault.Wrap(fault.Unavailable, err, "the client did not pass the request to its model").
			WithHint("allow sampling for Sandpiper in the client, or set tasks.model to openai, azure, anthropic or none")
	}
	return task.Sampled(s), err
}
