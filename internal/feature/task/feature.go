// Package task solves tasks in words: it selects the few tools that a task needs, lets rules or a language
// model write a program, and runs that. Code may ask the same model about data.
package task

import (
	"context"
	"embed"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/askllm"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/model"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/rules"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

//go:embed task.py
var python embed.FS

// Feature returns the feature: its keys, the tools execute_task and select_tools, the solver of tasks in the
// background, ask_llm as a function of code, and the commands task and tools select.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name:   "task",
			Config: config.Section{Settings: func() any { return new(Settings) }},
			Python: python,
			Start:  start,
		},
		Docs:     "tasks.md",
		Commands: commands,
	}
}

func start(core daemon.Core) (daemon.Part, error) {
	s := config.Of[Settings](core.Config())
	cfg := s.Model
	cfg.Resolve = (&secret.References{Lookup: core.Config().Lookup}).Resolve
	attended, unattended, err := solvers(cfg, s.Generator, task.Config{Tools: core.Tools, Remote: true})
	if err != nil {
		return daemon.Part{}, err
	}
	var asker askllm.Client // nil if code cannot ask
	part := daemon.Part{
		Value: attended,
		Tools: tools{attended, core.Runner, core.Log}.all(),
		Solve: func(ctx context.Context, h *home.Home, t background.Task) (*reply.Result, error) {
			gate := core.Privacy.Of(h.ID()).For(redact.Owner{Tenant: h.ID(), Vault: h.Vault})
			r, err := unattended.Solve(ctx, task.Task{
				Query:    task.Query{Task: t.Description},
				Home:     h,
				Gate:     gate,
				Request:  t.Request,
				Run:      t.Run,
				Progress: t.Progress,
			})
			return r.Last, err
		},
		HostCalls: hostcall.Source{Methods: func(of hostcall.Scope) []hostcall.Method { return askllm.Methods(asker, of) }},
	}
	if !isRemote(cfg) {
		return part, nil
	}
	a, err := model.NewAsker(cfg)
	if err != nil {
		return daemon.Part{}, err
	}
	part.Probes = []daemon.ModelProbe{{Key: "task_model", About: "model of tasks", Model: cfg.Provider + "/" + cfg.Name, Run: a.Probe}}
	if cfg.AskRequests >= 0 {
		asker = a
		part.About = "ask_llm(prompt, data=None, json_schema=None) asks a language model about data too large to return."
	}
	return part, nil
}

// isRemote reports whether a model is at an endpoint. Code does not ask the models of clients.
func isRemote(cfg model.Config) bool { return cfg.Provider != "" && cfg.Provider != model.Sampling }

// solvers returns the solver of tasks, with the configured model or without one, and that of tasks that
// no client waits for, so that none can offer its model.
func solvers(cfg model.Config, given task.Generator, solver task.Config) (attended, unattended *task.Solver, err error) {
	without := task.Config{Tools: solver.Tools, Generator: rules.Generator{}}
	switch {
	case given != nil:
		solver.Generator = given
	case cfg.Provider == "":
		solver = without
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
	unattended, err = task.New(without)
	return attended, unattended, err
}
