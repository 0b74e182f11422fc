package workflow

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// longestRun is the maximum length of the result of a workflow.
const longestRun = 100_000

// agentTools are the tools with which agents use workflows. A run is an execution: resume_execution
// resumes it.
type agentTools struct{ flows *Service }

// Tools returns the tools for workflows.
func Tools(of *Service) []builtin.Tool {
	t := agentTools{of}
	return []builtin.Tool{{
		Name: "list_workflows", Profile: builtin.Full,
		Description: "List workflows and their inputs.",
		Params:      builtin.PageParams,
		Hints:       wire.Hints{ReadOnly: true},
		Run:         t.list,
	}, {
		Name: "run_workflow", Profile: builtin.Full,
		Description: "Run a workflow.",
		Params: []builtin.Param{
			{Name: "name", Kind: builtin.Text, Required: true},
			{Name: "inputs", Kind: builtin.Object},
		},
		MaxChars: longestRun,
		Hints:    wire.Hints{Destructive: true},
		Start:    t.run,
	}, {
		Name: "save_workflow", Profile: builtin.Full,
		Description: "Check a workflow in YAML and save it; errors have line and column.",
		Params: []builtin.Param{{Name: "source", Kind: builtin.Text, Required: true,
			Description: "name, inputs, steps: [{name, type, config}], outputs"}},
		Hints: wire.Hints{Destructive: true, Idempotent: true},
		Run:   builtin.Handle(t.save),
	}}
}

// page is the answer of list_workflows.
type page struct {
	Count     int      `json:"count"` // of all
	Workflows []Listed `json:"workflows"`
	Next      int      `json:"next_offset,omitempty"` // of the workflows that follow; 0 if there are none
}

func (t agentTools) list(ctx context.Context, c builtin.Call) (redact.Message, error) {
	offset, err := builtin.ReadOffset(c, "workflows")
	if err != nil {
		return redact.Message{}, err
	}
	all, err := t.flows.Names(ctx, c.Home)
	if err != nil {
		return redact.Message{}, err
	}
	p := page{Count: len(all)}
	all, p.Next = builtin.PageAt(all, offset)
	p.Workflows, err = t.flows.Describe(ctx, c.Home, all)
	return redact.Message{Body: p}, err
}

func (t agentTools) run(ctx context.Context, c builtin.Call) (*execution.Execution, error) {
	var args struct {
		Name   string
		Inputs json.RawMessage
	}
	if err := c.Read(&args); err != nil {
		return nil, err
	}
	return t.flows.run(ctx, c.Home, c.Subset, args.Name, args.Inputs)
}

func (t agentTools) save(ctx context.Context, c builtin.Call, args struct{ Source string }) (redact.Message, error) {
	name, err := t.flows.Save(ctx, c.Home, c.Subset, []byte(args.Source))
	if err != nil {
		return redact.Message{}, err
	}
	return builtin.Did("Workflow '%s' saved", name)
}
