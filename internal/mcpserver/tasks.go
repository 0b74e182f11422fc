package mcpserver

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/task"
)

func (s *Server) taskTools() []builtin {
	if s.cfg.Tasks == nil {
		return nil
	}
	return []builtin{{
		name: "execute_task", profile: Full,
		about: "Solve a task described in words: selects tools, writes a program and runs it. State every value in the description; quote texts.",
		params: []param{
			{name: "task_description", kind: text, required: true},
			{name: "verbose", kind: boolean, fallback: false, about: "Return failed programs too"},
		},
		longest: 100_000,
		hints:   wire.Hints{Destructive: true},
		run:     s.executeTask,
	}}
}

func (s *Server) executeTask(ctx context.Context, c call) (redact.Message, error) {
	if c.State != "" {
		return s.answered(ctx, c)
	}
	var args struct {
		Task    string `json:"task_description"`
		Verbose bool   `json:"verbose"`
	}
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	var suspended *redact.Message
	result, err := s.cfg.Tasks.Solve(ctx, task.Task{
		Query: task.Query{Task: args.Task}, Home: c.home, Exit: c.exit(), Request: execution.Request{Subset: c.Subset},
		Progress: func(message string) { s.progress(ctx, c, execution.Progress{Message: message}) },
		Run: func(ctx context.Context, req execution.Request) (reply.Result, error) {
			x, err := s.cfg.Runner.Start(ctx, c.home, req)
			if err != nil {
				return reply.Result{}, err
			}
			done, waits, err := s.followResult(ctx, c, x)
			if done == nil && err == nil {
				suspended = &waits
				return reply.Result{Failure: reply.Failure{ErrorType: reply.TypeApproval}}, nil
			}
			if done == nil {
				return reply.Result{}, err
			}
			return *done, nil
		},
	})
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
		m = message(*last)
		m.Body = result
	}
	return m, nil
}
