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

// Listen opens host:port. An address that other machines can reach requires tokens.
func (d *Daemon) Listen(ctx context.Context, addr string) (net.Listener, error) {
	return httpserver.Listen(ctx, addr, len(d.cfg.HTTP.Tokens) > 0)
}

// ServeHTTP serves MCP over HTTP until ctx ends, then ends running calls within a
// limited time. It closes ln.
func (d *Daemon) ServeHTTP(ctx context.Context, ln net.Listener) error {
	d.prepare()
	h := d.cfg.HTTP
	face := d.server.HTTP(mcpserver.HTTPConfig{Verify: verifier(h.Tokens, d.data.refused.add), TokenConnections: h.TokenConnections, TokenRequests: h.TokenRequests})
	defer face.Close()
	cfg := httpserver.Config{MCP: face, Drain: face.Drain, Log: d.log.Logger, Connections: h.Connections, AddressConnections: h.PerAddress, Ready: d.health().check}
	if h.Events {
		cfg.Events = face.Events()
	}
	srv, err := httpserver.New(cfg)
	if err != nil {
		return err
	}
	return srv.Serve(ctx, ln)
}

func (d *Daemon) health() health {
	h := health{data: d.data, tokens: d.cfg.HTTP.Tokens, sandbox: d.backend, log: d.log.Logger}
	if d.isPassthrough() {
		h.sandbox = nil
	}
	return h
}

// verifier returns a function that maps a token to its tenant, or nil if no tokens are
// configured. It takes the same time for every wrong token, and calls refused for each.
func verifier(tokens []config.Token, refused func()) func(context.Context, string) (tenant.ID, error) {
	if len(tokens) == 0 {
		return nil
	}
	return func(_ context.Context, token string) (tenant.ID, error) {
		var owner tenant.ID
		given := sha256.Sum256([]byte(token))
		for _, t := range tokens {
			if known := sha256.Sum256([]byte(t.Secret)); subtle.ConstantTimeCompare(given[:], known[:]) == 1 {
				owner = t.Tenant
			}
		}
		if owner.IsZero() {
			refused()
			return owner, errors.New("unknown token")
		}
		return owner, nil
	}
}
