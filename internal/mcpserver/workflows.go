package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/workflow"
)

// workflowTools returns the tools for workflows. A run is an execution: resume_execution resumes it.
func (s *Server) workflowTools() []builtin {
	if s.cfg.Flows == nil {
		return nil
	}
	return []builtin{{
		name: "list_workflows", profile: Full,
		about:  "List workflows and their inputs.",
		params: pageParams,
		hints:  wire.Hints{ReadOnly: true},
		run:    s.listWorkflows,
	}, {
		name: "run_workflow", profile: Full,
		about: "Run a workflow.",
		params: []param{
			{name: "name", kind: text, required: true},
			{name: "inputs", kind: object},
		},
		longest: longestRun,
		hints:   wire.Hints{Destructive: true},
		run:     s.runWorkflow,
	}, {
		name: "save_workflow", profile: Full,
		about:  "Check a workflow in YAML and save it; errors have line and column.",
		params: []param{{name: "source", kind: text, required: true, about: "name, inputs, steps: [{name, type, config}], outputs"}},
		hints:  wire.Hints{Destructive: true, Idempotent: true},
		run:    s.saveWorkflow,
	}}
}

// longestRun is the maximum length of the result of a workflow.
const longestRun = 100_000

// workflowList is the answer of list_workflows.
type workflowList struct {
	Count     int               `json:"count"` // of all
	Workflows []workflow.Listed `json:"workflows"`
	Next      int               `json:"next_offset,omitempty"` // of the workflows that follow; 0 if there are none
}

func (s *Server) listWorkflows(ctx context.Context, c call) (redact.Message, error) {
	offset, err := readOffset(c, "workflows")
	if err != nil {
		return redact.Message{}, err
	}
	all, err := s.cfg.Flows.Names(ctx, c.home)
	if err != nil {
		return redact.Message{}, err
	}
	list := workflowList{Count: len(all)}
	all, list.Next = pageAt(all, offset)
	list.Workflows, err = s.cfg.Flows.Describe(ctx, c.home, all)
	return redact.Message{Body: list}, err
}

func (s *Server) runWorkflow(ctx context.Context, c call) (redact.Message, error) {
	if c.State != "" {
		return s.answered(ctx, c)
	}
	var args struct {
		Name   string
		Inputs json.RawMessage
	}
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	return s.startWorkflow(ctx, c, args.Name, args.Inputs)
}

// startWorkflow checks and runs a workflow.
func (s *Server) startWorkflow(ctx context.Context, c call, name string, inputs json.RawMessage) (redact.Message, error) {
	p, err := s.cfg.Flows.Load(ctx, c.home, c.Subset, name)
	if err != nil {
		return redact.Message{}, err
	}
	x, err := s.cfg.Flows.Start(ctx, c.home, c.Subset, p, inputs)
	if err != nil {
		return redact.Message{}, err
	}
	return s.follow(ctx, c, x)
}

func (s *Server) saveWorkflow(ctx context.Context, c call) (redact.Message, error) {
	var args struct{ Source string }
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	name, err := s.cfg.Flows.Save(ctx, c.home, c.Subset, []byte(args.Source))
	if err != nil {
		return redact.Message{}, err
	}
	return did("Workflow '%s' saved", name)
}
