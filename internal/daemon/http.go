package daemon

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/httpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Listen opens host:port. One that other machines can reach is refused unless
// clients have to show a token.
func (d *Daemon) Listen(ctx context.Context, addr string) (net.Listener, error) {
	return httpserver.Listen(ctx, addr, len(d.cfg.HTTP.Tokens) > 0)
}

// ServeHTTP speaks MCP over HTTP until ctx ends, and ends what runs within
// bounded time. It closes ln.
func (d *Daemon) ServeHTTP(ctx context.Context, ln net.Listener) error {
	d.ready()
	h := d.cfg.HTTP
	face := d.server.HTTP(mcpserver.HTTPConfig{Verify: verifier(h.Tokens, d.refused.add), TokenConnections: h.TokenConnections, TokenRequests: h.TokenRequests})
	defer face.Close()
	cfg := httpserver.Config{MCP: face, Drain: face.Drain, Log: d.log, Connections: h.Connections, AddressConnections: h.PerAddress, Ready: d.readiness}
	if h.Events {
		cfg.Events = face.Events()
	}
	srv, err := httpserver.New(cfg)
	if err != nil {
		return err
	}
	return srv.Serve(ctx, ln)
}

// verifier knows whose a token is; it is nil if there are none. It takes the same
// time for every wrong token, and tells of each.
func verifier(tokens []config.Token, refused func()) func(context.Context, string) (tenant.ID, error) {
	if len(tokens) == 0 {
		return nil
	}
	return func(_ context.Context, token string) (tenant.ID, error) {
		var whose tenant.ID
		shown := sha256.Sum256([]byte(token))
		for _, t := range tokens {
			if known := sha256.Sum256([]byte(t.Secret)); subtle.ConstantTimeCompare(shown[:], known[:]) == 1 {
				whose = t.Tenant
			}
		}
		if whose.IsZero() {
			refused()
			return whose, errors.New("nobody has this token")
		}
		return whose, nil
	}
}
