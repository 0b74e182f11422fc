package daemon

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/task"
	"github.com/sandpiper-mcp/sandpiper/internal/task/model"
	"github.com/sandpiper-mcp/sandpiper/internal/task/rules"
)

// newTasks returns the solver of tasks, with the configured model or without one.
func newTasks(c Config, tools *execution.Tools) (*task.Solver, error) {
	cfg := c.Tasks
	if cfg.Provider == "" {
		return task.New(task.Config{Tools: tools, Generator: rules.Generator{}})
	}
	cfg.Resolve = (&secret.References{Lookup: c.Lookup}).Resolve
	cfg.Sample = func(context.Context, string, string) (string, error) {
		return "", fault.New(fault.Unavailable, "tasks.model sampling is not available yet in this version").
			WithHint("set tasks.model to openai, azure or anthropic, or to none")
	}
	g, err := model.New(cfg)
	if err != nil {
		return nil, err
	}
	return task.New(task.Config{Tools: tools, Generator: g, Remote: true})
}
