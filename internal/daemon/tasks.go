package daemon

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/askllm"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/task"
	"github.com/sandpiper-mcp/sandpiper/internal/task/model"
	"github.com/sandpiper-mcp/sandpiper/internal/task/rules"
)

// newAsker returns the model that code asks; nil if it cannot ask one. Code does not ask the models
// of clients.
func newAsker(c Config) (askllm.Client, error) {
	cfg := c.Tasks
	if cfg.Provider == "" || cfg.Provider == model.Sampling || cfg.AskRequests < 0 {
		return nil, nil
	}
	cfg.Resolve = (&secret.References{Lookup: c.Lookup}).Resolve
	return model.NewAsker(cfg)
}

// ProbeTaskModel sends a small request to the model of tasks. The name is "" if there is none at an
// endpoint.
func ProbeTaskModel(ctx context.Context, d *Daemon) (name string, err error) {
	cfg := d.cfg.Tasks
	if cfg.Provider == "" || cfg.Provider == model.Sampling {
		return "", nil
	}
	cfg.Resolve = (&secret.References{Lookup: d.cfg.Lookup}).Resolve
	name = cfg.Provider + "/" + cfg.Name
	a, err := model.NewAsker(cfg)
	if err != nil {
		return name, err
	}
	return name, a.Probe(ctx)
}

// newTasks returns the solver of tasks, with the configured model or without one, and that of tasks
// that no client waits for, so that none can offer its model.
func newTasks(c Config, tools *execution.Tools) (attended, unattended *task.Solver, err error) {
	cfg := c.Tasks
	cfg.Resolve = (&secret.References{Lookup: c.Lookup}).Resolve
	solver := task.Config{Tools: tools, Remote: true}
	switch {
	case c.Generator != nil:
		solver.Generator = c.Generator
	case cfg.Provider == "":
		solver.Generator, solver.Remote = rules.Generator{}, false
	case cfg.Provider == model.Sampling:
		solver.Sampling = func(sample task.Sample) (task.Generator, error) {
			of := cfg
			of.Sample = sample
			return model.New(of)
		}
	default:
		if solver.Generator, err = model.New(cfg); err != nil {
			return nil, nil, err
		}
	}
	if attended, err = task.New(solver); err != nil || solver.Sampling == nil {
		return attended, attended, err
	}
	unattended, err = task.New(task.Config{Tools: tools, Generator: rules.Generator{}})
	return attended, unattended, err
}
