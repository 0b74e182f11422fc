package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// HasTool reports whether Sandpiper has a tool of that name, in any profile.
func (s *Server) HasTool(name string) bool {
	_, ok := s.smallest[name]
	return ok
}

// exports returns the tools of a caller. An error is logged: the other tools remain usable. A caller
// without a home has none; its calls return the reason.
func (s offers) exports(ctx context.Context, caller string) (tools []wire.Tool) {
	h, err := s.acquire(ctx, caller)
	if err != nil {
		return nil
	}
	defer func() { _ = h.Release(context.WithoutCancel(ctx)) }() // nothing but tokens was written
	all, err := s.cfg.Exports.Tools(ctx, h)
	if err == nil {
		err = s.redactExports(ctx, h, all)
	}
	if err != nil {
		s.complain("tools/list", err)
		return nil
	}
	for _, t := range all {
		tools = append(tools, wireTool(s.Server, t))
	}
	return tools
}

// exported has the texts of a tool that a tenant has written.
type exported struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// redactExports replaces private values in the texts that a tenant has written.
func (s offers) redactExports(ctx context.Context, h *home.Home, tools []builtin.Tool) error {
	if len(tools) == 0 {
		return nil
	}
	all := make([]exported, len(tools))
	for i, t := range tools {
		all[i] = exported{t.Name, t.Description, t.Schema}
	}
	redacted, err := s.cfg.Privacy.For(redact.Owner{Tenant: h.ID(), Vault: h.Vault}).Redact(ctx, all)
	if err != nil {
		return err
	}
	text, _, _, err := redacted.Content()
	if err == nil {
		all = nil
		err = json.Unmarshal([]byte(text), &all)
	}
	for i, e := range all {
		tools[i].Name, tools[i].Description, tools[i].Schema = e.Name, e.Description, e.Schema
	}
	return err
}

// export returns the tool of a caller with that name.
func (s offers) export(ctx context.Context, caller, name string) (t wire.Tool, ok bool) {
	h, err := s.acquire(ctx, caller)
	if err != nil {
		return t, false
	}
	defer func() { _ = h.Release(context.WithoutCancel(ctx)) }() // nothing was written
	found, ok, err := s.cfg.Exports.Find(ctx, h, name)
	if err != nil {
		s.complain(name, err)
	}
	return wireTool(s.Server, found), ok
}

// callerVersion changes with the tools of a caller.
func (s offers) callerVersion(caller string) string {
	id, err := tenant.ParseStored(caller)
	if err != nil {
		return ""
	}
	return s.cfg.Exports.TenantVersion(id)
}
