package mcpserver

import (
	"context"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/home/stream"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// HTTPConfig configures a Server over HTTP.
type HTTPConfig struct {
	// Verify returns the identity of a caller; nil means no authentication.
	Verify func(context.Context, access.Credentials) (access.Identity, error)
	// Foreign is called for each request with a connection or stream of another tenant; nil
	// means no call.
	Foreign func(caller tenant.ID, f wire.Foreign)
	// Resource is announced to clients that must authenticate; nil means none.
	Resource *wire.Protected
	// Limited reports whether a tenant has quotas, whose state is in the header of answers; nil
	// means none.
	Limited func(tenant.ID) bool
	// TokenConnections and TokenRequests limit the MCP connections and open requests
	// per token; 0 means the defaults of wire.
	TokenConnections, TokenRequests int
}

// HTTP returns the handler for HTTP.
func (s *Server) HTTP(cfg HTTPConfig) *wire.HTTP {
	wireCfg := wire.HTTPConfig{Rates: s.rates(cfg.Limited), Answers: s.answers, Resource: cfg.Resource,
		CallerConnections: cfg.TokenConnections, CallerRequests: cfg.TokenRequests}
	if foreign := cfg.Foreign; foreign != nil {
		wireCfg.Foreign = func(caller string, f wire.Foreign) {
			if id, err := tenant.ParseStored(caller); err == nil {
				foreign(id, f)
			}
		}
	}
	if verify := cfg.Verify; verify != nil {
		wireCfg.Verify = func(ctx context.Context, given access.Credentials) (wire.Caller, error) {
			who, err := verify(ctx, given)
			scopes := make([]string, len(who.Scopes)) // not nil, which means all
			for i, s := range who.Scopes {
				scopes[i] = string(s)
			}
			return wire.Caller{Name: who.Tenant.String(), Scopes: scopes, Expires: who.Expires}, err
		}
	}
	return s.wire.HTTP(wireCfg)
}

// answers calls use with the answers that are kept for a caller's clients.
func (s *Server) answers(ctx context.Context, caller string, use func(*stream.Store) error) error {
	home, err := s.acquire(ctx, caller)
	if err != nil {
		return err
	}
	return errors.Join(use(home.Streams), home.Release(context.WithoutCancel(ctx)))
}
