package task

import (
	"context"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// tools are the tools for tasks in words.
type tools struct {
	solver *task.Solver
	runner *execution.Runner
	log    *slog.Logger
}

func (t tools) all() []builtin.Tool {
	threshold := builtin.Param{Name: "threshold", Kind: builtin.Number, Default: task.DefaultThreshold}
	topK := builtin.Param{Name: "top_k", Kind: builtin.Integer, Default: task.DefaultTopK}
	return []builtin.Tool{{
		Name: "execute_task", Profile: builtin.Full,
		Description: "Solve a task described in words: selects tools, writes a program and runs it. State every value in the " +
			"description; quote texts.",
		Params: []builtin.Param{
			{Name: "task_description", Kind: builtin.Text, Required: true},
			{Name: "verbose", Kind: builtin.Boolean, Default: false, Description: "Return failed programs too"},
			threshold, topK,
			{Name: "session_id", Kind: builtin.Text, Source: builtin.SessionIDs},
		},
		MaxChars: 100_000,
		Hints:    wire.Hints{Destructive: true},
		Converse: t.execute,
		Samples:  t.solver.Samples(),
	}, {
		Name: "select_tools", Profile: builtin.Full,
		Description: "Select the few tools that a task in words needs.",
		Params: []builtin.Param{
			{Name: "task_description", Kind: builtin.Text, Required: true},
			{Name: "threshold", Kind: builtin.Number, Default: task.DefaultThreshold, Description: "Least score, up to 1"},
			topK,
		},
		Hints: wire.Hints{ReadOnly: true, Idempotent: true},
		Run:   builtin.Handle(t.selectTools),
	}}
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
		topK = new(int(builtin.Int64(*a.TopK)))
	}
	return q, q.Set(a.Threshold, topK)
}

func (t tools) selectTools(ctx context.Context, c builtin.Call, args queryArgs) (redact.Message, error) {
	q, err := args.query()
	if err != nil {
		return redact.Message{}, err
	}
	selected, err := t.solver.Select(ctx, catalog.Viewer{Tenant: c.Home.ID(), Subset: c.Subset}, c.Home.Skills, q)
	return redact.Message{Body: selected}, err
}

func (t tools) execute(ctx context.Context, c *builtin.Conversation) (redact.Message, error) {
	var args struct {
		queryArgs
		Verbose bool   `json:"verbose"`
		Session string `json:"session_id"`
	}
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	query, err := args.query()
	if err != nil {
		return redact.Message{}, err
	}
	var suspended *redact.Message // what the client is answered instead
	of := task.Task{
		Query: query, Home: c.Home, Gate: c.ModelGate(), Request: execution.Request{Subset: c.Subset, Client: c.Client,
			SessionID: args.Session},
		Progress: func(message string) { c.Report(ctx, message) },
		Run: func(ctx context.Context, req execution.Request) (res reply.Result, err error) {
			x, err := t.runner.Start(ctx, c.Home, req)
			if err != nil {
				return res, err
			}
			done, waits, err := c.Follow(ctx, x)
			if done == nil && err == nil {
				suspended = &waits
				return reply.Result{Failure: reply.Failure{ErrorType: reply.TypeApproval}}, nil
			}
			if done == nil {
				return res, err
			}
			return *done, nil
		},
	}
	if c.Sample != nil {
		of.Sample = func(ctx context.Context, p task.Prompt) (task.Sampled, error) { return t.sample(ctx, c, p) }
	}
	result, err := t.solver.Solve(ctx, of)
	switch {
	case err != nil:
		return redact.Message{}, err
	case suspended != nil:
		return *suspended, nil
	}
	if !args.Verbose {
		result.Attempts = nil
	}
	m := redact.Message{Body: result, Failed: !result.Success}
	if last := result.Last; last != nil {
		m = builtin.Answer(*last, c.Commands)
		m.Body = result
	}
	return m, nil
}

// sample asks the client's model, which may be another one than that of the conversation.
func (t tools) sample(ctx context.Context, c *builtin.Conversation, p task.Prompt) (task.Sampled, error) {
	text, err := c.ModelGate().Redact(ctx, p.Text)
	if err != nil {
		return task.Sampled{}, err
	}
	s, err := c.Sample(ctx, wire.Prompt{System: p.System, Text: text, MaxTokens: p.MaxTokens, Model: p.Model})
	if err != nil && ctx.Err() == nil && fault.KindOf(err) == fault.Internal {
		t.log.Debug("the client's model was not asked", "error", err)
		err = fault.Wrap(fault.Unavailable, err, "the client did not pass the request to its model").
			WithHint("allow sampling for Sandpiper in the client, or set tasks.model to openai, azure, anthropic or none")
	}
	return task.Sampled(s), err
}
