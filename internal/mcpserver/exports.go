package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/workflow"
)

// HasTool reports whether Sandpiper has a tool of that name, in any profile.
func (s *Server) HasTool(name string) bool {
	_, ok := s.smallest[name]
	return ok
}

// exports returns the exported workflows of a caller as tools. An error is logged: the other tools
// remain usable. A caller without a home has none; its calls return the reason.
func (s *Server) exports(ctx context.Context, caller string) (tools []wire.Tool) {
	h, err := s.acquire(ctx, caller)
	if err != nil {
		return nil
	}
	defer func() { _ = h.Release(context.WithoutCancel(ctx)) }() // nothing but tokens was written
	all, err := s.redactedExports(ctx, h)
	if err != nil {
		s.complain("tools/list", err)
		return nil
	}
	for _, e := range all {
		tools = append(tools, wireTool(s, s.exported(e)))
	}
	return tools
}

// redactedExports returns the exported workflows of a tenant without private values.
func (s *Server) redactedExports(ctx context.Context, h *home.Home) ([]workflow.Export, error) {
	all, err := s.cfg.Flows.Exports(ctx, h)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	redacted, err := s.cfg.Privacy.For(redact.Owner{Tenant: h.ID(), Vault: h.Vault}).Redact(ctx, all)
	if err != nil {
		return nil, err
	}
	text, _, _, err := redacted.Content()
	if err == nil {
		all = nil
		err = json.Unmarshal([]byte(text), &all)
	}
	return all, err
}

// export returns the exported workflow of a caller with that name as a tool.
func (s *Server) export(ctx context.Context, caller, name string) (t wire.Tool, ok bool) {
	h, err := s.acquire(ctx, caller)
	if err != nil {
		return t, false
	}
	defer func() { _ = h.Release(context.WithoutCancel(ctx)) }() // nothing was written
	e, ok, err := s.cfg.Flows.FindExport(ctx, h, name)
	if err != nil {
		s.complain(name, err)
	}
	return wireTool(s, s.exported(e)), ok
}

// exported returns the tool that runs a workflow: run_workflow with its name.
func (s *Server) exported(e workflow.Export) builtin.Tool {
	return builtin.Tool{
		Name: e.Name, Description: e.Description, Schema: e.Inputs, MaxChars: longestRun,
		Label: "run_workflow", // names of tenants are no labels
		Hints: wire.Hints{Destructive: true},
		Run: func(ctx context.Context, c builtin.Call) (redact.Message, error) {
			if c.State != "" {
				return s.answered(ctx, c)
			}
			return s.startWorkflow(ctx, c, e.Name, c.Arguments)
		},
	}
}

// callerVersion changes with the exported workflows of a caller.
func (s *Server) callerVersion(caller string) string {
	id, err := tenant.ParseStored(caller)
	if err != nil {
		return ""
	}
	return fmt.Sprint(s.cfg.Tenants.WorkflowsChanged(id).UnixNano())
}
