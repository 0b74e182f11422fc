package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/workflow"
)

// workflowTools returns the tools for workflows. A run is an execution: resume_execution resumes it.
func (s *Server) workflowTools() []builtin.Tool {
	if s.cfg.Flows == nil {
		return nil
	}
	return []builtin.Tool{{
		Name: "list_workflows", Profile: builtin.Full,
		Description: "List workflows and their inputs.",
		Params:      pageParams,
		Hints:       wire.Hints{ReadOnly: true},
		Run:         s.listWorkflows,
	}, {
		Name: "run_workflow", Profile: builtin.Full,
		Description: "Run a workflow.",
		Params: []builtin.Param{
			{Name: "name", Kind: builtin.Text, Required: true},
			{Name: "inputs", Kind: builtin.Object},
		},
		MaxChars: longestRun,
		Hints:    wire.Hints{Destructive: true},
		Run:      s.runWorkflow,
	}, {
		Name: "save_workflow", Profile: builtin.Full,
		Description: "Check a workflow in YAML and save it; errors have line and column.",
		Params:      []builtin.Param{{Name: "source", Kind: builtin.Text, Required: true, Description: "name, inputs, steps: [{name, type, config}], outputs"}},
		Hints:       wire.Hints{Destructive: true, Idempotent: true},
		Run:         s.saveWorkflow,
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

func (s *Server) listWorkflows(ctx context.Context, c builtin.Call) (redact.Message, error) {
	offset, err := readOffset(c, "workflows")
	if err != nil {
		return redact.Message{}, err
	}
	all, err := s.cfg.Flows.Names(ctx, c.Home)
	if err != nil {
		return redact.Message{}, err
	}
	list := workflowList{Count: len(all)}
	all, list.Next = pageAt(all, offset)
	list.Workflows, err = s.cfg.Flows.Describe(ctx, c.Home, all)
	return redact.Message{Body: list}, err
}

func (s *Server) runWorkflow(ctx context.Context, c builtin.Call) (redact.Message, error) {
	if c.State != "" {
		return s.answered(ctx, c)
	}
	var args struct {
		Name   string
		Inputs json.RawMessage
	}
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	return s.startWorkflow(ctx, c, args.Name, args.Inputs)
}

// startWorkflow checks and runs a workflow.
func (s *Server) startWorkflow(ctx context.Context, c builtin.Call, name string, inputs json.RawMessage) (redact.Message, error) {
	p, err := s.cfg.Flows.Load(ctx, c.Home, c.Subset, name)
	if err != nil {
		return redact.Message{}, err
	}
	x, err := s.cfg.Flows.Start(ctx, c.Home, c.Subset, p, inputs)
	if err != nil {
		return redact.Message{}, err
	}
	return s.follow(ctx, c, x)
}

func (s *Server) saveWorkflow(ctx context.Context, c builtin.Call) (redact.Message, error) {
	var args struct{ Source string }
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	name, err := s.cfg.Flows.Save(ctx, c.Home, c.Subset, []byte(args.Source))
	if err != nil {
		return redact.Message{}, err
	}
	return builtin.Did("Workflow '%s' saved", name)
}
