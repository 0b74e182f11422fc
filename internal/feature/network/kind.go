package network

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Noun implements upstream.Kind.
func (*Rules) Noun() string { return "the network" }

// Validate implements upstream.Kind. NewRules has checked the rules.
func (*Rules) Validate() error { return nil }

// For implements daemon.TenantKind: a tenant has rules of its own.
func (*Rules) For(c *config.Config) upstream.Kind { return rulesOf(c) }

// Connector implements upstream.Kind. Opening a connection sends nothing.
func (r *Rules) Connector(h *upstream.Host) upstream.Connector {
	cfg := Config{Rules: r, Spool: h.Spool, UserAgent: h.UserAgent,
		Resolve: func(ctx context.Context, header, value string) (string, error) {
			return h.Resolve(ctx, "header "+header, value, upstream.InHeader)
		}}
	return upstream.ConnectorFunc(func(context.Context) (upstream.Session, error) { return session{New(cfg)}, nil })
}

// session adapts a Client to upstream.Session. Only Close ends it.
type session struct{ *Client }

// Info implements upstream.Session.
func (session) Info() upstream.Info {
	return upstream.Info{Title: "Network", Instructions: "Sends HTTP requests to hosts that the operator allows."}
}

// IsBroken implements upstream.Session. Each request is independent of the others.
func (session) IsBroken(error) bool { return false }
