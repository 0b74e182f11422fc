package workflow

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow/saved"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
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
		Params:      []builtin.Param{{Name: "source", Kind: builtin.Text, Required: true, Description: "name, inputs, steps: [{name, type, config}], outputs"}},
		Hints:       wire.Hints{Destructive: true, Idempotent: true},
		Run:         builtin.Handle(t.save),
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
	return t.start(ctx, c, args.Name, args.Inputs)
}

// start checks and runs a workflow.
func (t agentTools) start(ctx context.Context, c builtin.Call, name string, inputs json.RawMessage) (*execution.Execution, error) {
	p, err := t.flows.Load(ctx, c.Home, c.Subset, name)
	if err != nil {
		return nil, err
	}
	return t.flows.Start(ctx, c.Home, c.Subset, p, inputs)
}

func (t agentTools) save(ctx context.Context, c builtin.Call, args struct{ Source string }) (redact.Message, error) {
	name, err := t.flows.Save(ctx, c.Home, c.Subset, []byte(args.Source))
	if err != nil {
		return redact.Message{}, err
	}
	return builtin.Did("Workflow '%s' saved", name)
}

// Exported returns the exported workflows as tools of their tenants.
func Exported(of *Service, homes *home.Homes) builtin.Exports {
	return exports{agentTools{of}, homes}
}

// exports are the exported workflows as tools.
type exports struct {
	agentTools
	homes *home.Homes
}

func (e exports) Tools(ctx context.Context, h *home.Home) (tools []builtin.Tool, err error) {
	all, err := e.flows.Exports(ctx, h)
	for _, one := range all {
		tools = append(tools, e.tool(one))
	}
	return tools, err
}

func (e exports) Find(ctx context.Context, h *home.Home, name string) (builtin.Tool, bool, error) {
	one, ok, err := e.flows.FindExport(ctx, h, name)
	return e.tool(one), ok, err
}

func (e exports) Version() string { return e.flows.FilesVersion() }

func (e exports) TenantVersion(id tenant.ID) string {
	return fmt.Sprint(e.homes.LastChange(id, saved.Feature).UnixNano())
}

// tool returns the tool that runs a workflow: run_workflow with its name.
func (e exports) tool(of Export) builtin.Tool {
	return builtin.Tool{
		Name:        of.Name,
		Description: of.Description,
		Schema:      of.Inputs,
		MaxChars:    longestRun,
		Label:       "run_workflow", // names of tenants are no labels
		Hints:       wire.Hints{Destructive: true},
		Start: func(ctx context.Context, c builtin.Call) (*execution.Execution, error) {
			return e.start(ctx, c, of.Name, c.Arguments)
		},
	}
}
