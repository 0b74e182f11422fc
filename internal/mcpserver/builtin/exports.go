package builtin

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Exports are the tools that each tenant has besides those of all. Their names, descriptions and schemas
// are redacted before a client sees them.
type Exports interface {
	Tools(context.Context, *home.Home) ([]Tool, error)
	Find(ctx context.Context, h *home.Home, name string) (t Tool, ok bool, err error)
	Version() string                   // changes when a tool that all tenants have does
	TenantVersion(id tenant.ID) string // changes when a tool of the tenant does; it is asked for often
}
