package builtin

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Resources are resources of a tenant besides the files of its workspace, under a scheme of their own. What
// they return is redacted before a client sees it.
type Resources struct {
	Scheme    string        // of their URIs, with "://"
	Template  wire.Template // of those that Names completes
	Names     Source
	List      func(context.Context, *home.Home) ([]Resource, error)
	Read      func(ctx context.Context, h *home.Home, uri string) (wire.Content, error)
	Extension Extension // methods that describe them; without Methods there are none
	// File returns the file of the workspace that changes with a resource.
	File func(ctx context.Context, h *home.Home, uri string) (string, error)
}

// Resource is one entry of a list.
type Resource struct {
	wire.Resource
	File string // of the workspace, which has its size; "" means that the size is not known
}

// Extension is an extension of the protocol.
type Extension struct {
	Name    string // its identifier
	Methods map[string]Method
}

// Method answers a request of an extension with an object. The gate is that of the answer.
type Method func(context.Context, *home.Home, *redact.Gate, wire.ExtensionParams) (any, error)
