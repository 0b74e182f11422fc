package daemon

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/task"
	"github.com/sandpiper-mcp/sandpiper/internal/task/model"
	"github.com/sandpiper-mcp/sandpiper/internal/task/rules"
)

// newAsker returns the model that code asks; nil if it cannot ask one. Code does not ask the models
// of clients.
func newAsker(c Config) (execution.Model, error) {
	cfg := c.Tasks
	if cfg.Provider == "" || cfg.Provider == model.Sampling || cfg.AskRequests < 0 {
		return nil, nil
	}
	cfg.Resolve = (&secret.References{Lookup: c.Lookup}).Resolve
	return model.NewAsker(cfg)
}

// ProbeTaskModel sends a small request to the model of tasks. The name is "" if there is none at an
// endpoint.
func (d *Daemon) ProbeTaskModel(ctx context.Context) (name string, err error) {
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

// newTasks returns the solver of tasks, with the configured model or without one.
func newTasks(c Config, tools *execution.Tools) (*task.Solver, error) {
	if c.Generator != nil {
		return task.New(task.Config{Tools: tools, Generator: c.Generator, Remote: true})
	}
	cfg := c.Tasks
	if cfg.Provider == "" {
		return task.New(task.Config{Tools: tools, Generator: rules.Generator{}})
	}
	cfg.Resolve = (&secret.References{Lookup: c.Lookup}).Resolve
	if cfg.Provider == model.Sampling {
		return task.New(task.Config{Tools: tools, Remote: true, Sampling: func(sample task.Sample) (task.Generator, error) {
			of := cfg
			of.Sample = sample
			return model.New(of)
		}})
	}
	g, err := model.New(cfg)
	if err != nil {
		return nil, err
	}
	return task.New(task.Config{Tools: tools, Generator: g, Remote: true})
}
