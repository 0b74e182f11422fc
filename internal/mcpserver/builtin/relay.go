package builtin

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Relay answers the requests of clients in a profile of its own, in which this server has no tools.
type Relay struct {
	Profile Profile
	// Answers has a function for each method of wire.Relay. The server redacts their results.
	Answers map[string]func(context.Context, Visit) (any, error)
	// Versions is as in wire.Relay.
	Versions func() wire.Versions
}

// Visit is a request of a tenant.
type Visit struct {
	wire.Request
	Home     *home.Home
	Gate     *redact.Gate   // redacts answers to the client
	Commands fault.Commands // in messages
}
