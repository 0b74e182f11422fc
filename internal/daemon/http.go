package daemon

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/httpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Listen opens host:port. An address that other machines can reach requires authentication.
func (d *Daemon) Listen(ctx context.Context, addr string) (net.Listener, error) {
	return httpserver.Listen(ctx, addr, d.cfg.HTTP.Authenticated())
}

// ServeHTTP serves MCP over HTTP until ctx ends, then ends running calls within a
// limited time. It closes ln.
func (d *Daemon) ServeHTTP(ctx context.Context, ln net.Listener) error {
	h := d.cfg.HTTP
	callers := callers{tokens: h.Tokens, refused: d.tokenRefused, log: d.log.Logger}
	if h.Keys {
		keys, err := d.OpenKeys(ctx)
		if err != nil {
			return errors.Join(err, ln.Close())
		}
		defer keys.Close()
		callers.keys = keys
	}
	resource, err := callers.accept(h.OIDC)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	d.prepare()
	face := d.server.HTTP(mcpserver.HTTPConfig{Verify: callers.verifier(), Foreign: d.foreignID, Resource: resource, TokenConnections: h.TokenConnections, TokenRequests: h.TokenRequests})
	defer face.Close()
	cfg := httpserver.Config{MCP: face, Metadata: face.Metadata(), Drain: face.Drain, Log: d.log.Logger, Connections: h.Connections, AddressConnections: h.PerAddress, Ready: d.health().check}
	if h.Events {
		cfg.Events = face.Events()
	}
	srv, err := httpserver.New(cfg)
	if err != nil {
		return err
	}
	return srv.Serve(ctx, ln)
}

func (d *Daemon) tokenRefused() {
	d.data.refused.add(audit.Line{Kind: audit.Login, Outcome: "refused"})
}

// foreignID records that a tenant used an id of another one.
func (d *Daemon) foreignID(caller tenant.ID, f wire.Foreign) {
	d.data.auditLater(audit.Line{Kind: audit.Access, Tenant: caller, Outcome: string(f)})
}

func (d *Daemon) health() health {
	h := health{data: d.data, tokens: d.cfg.HTTP.Tokens, sandbox: d.backend, log: d.log.Logger}
	if d.isPassthrough() {
		h.sandbox = nil
	}
	return h
}

// OpenKeys opens the API keys of the data directory. The caller closes them.
func (d *Daemon) OpenKeys(ctx context.Context) (*access.Keys, error) {
	return access.OpenKeys(ctx, d.data.sub("access.db"))
}

// AcceptsKeys reports whether a daemon with this configuration accepts API keys.
func (d *Daemon) AcceptsKeys() bool { return d.cfg.HTTP.Keys }

// callers identifies callers by their tokens.
type callers struct {
	tokens  []config.Token
	keys    *access.Keys     // nil if none are accepted
	openID  *access.Provider // nil if none is accepted
	refused func()           // called for each refused token
	log     *slog.Logger
}

// accept accepts the tokens of an OpenID provider, and returns the description of this server for
// its clients.
func (c *callers) accept(o config.OIDC) (resource *wire.Protected, err error) {
	if o.Issuer == "" {
		return nil, nil
	}
	c.openID, err = access.NewProvider(access.OIDC{Issuer: o.Issuer, Audience: o.Audience, Claim: o.Claim, Prefix: o.Prefix, Skew: o.Skew})
	resource = &wire.Protected{URL: o.Resource, Issuers: []string{o.Issuer}}
	for _, s := range access.Scopes {
		resource.Scopes = append(resource.Scopes, o.Prefix+string(s))
	}
	return resource, err
}

// tokenScopes are the scopes of a token in the configuration.
var tokenScopes = []access.Scope{access.Execute, access.Files, access.Approve}

// verifier returns a function that returns the identity of a token, or nil if no token is
// required.
func (c callers) verifier() func(context.Context, string) (access.Identity, error) {
	if len(c.tokens) == 0 && c.keys == nil && c.openID == nil {
		return nil
	}
	return func(ctx context.Context, token string) (access.Identity, error) {
		who, err := c.verify(ctx, token)
		if err == nil {
			return who, nil
		}
		c.refused()
		if !errors.Is(err, access.ErrUnknown) {
			c.log.Error("verify a token", "error", err)
			err = errors.New("it cannot be verified now")
		}
		return access.Identity{}, err
	}
}

// verify takes the same time for every wrong token of the configuration.
func (c callers) verify(ctx context.Context, token string) (access.Identity, error) {
	var owner tenant.ID
	given := sha256.Sum256([]byte(token))
	for _, t := range c.tokens {
		if known := sha256.Sum256([]byte(t.Secret)); subtle.ConstantTimeCompare(given[:], known[:]) == 1 {
			owner = t.Tenant
		}
	}
	switch {
	case !owner.IsZero():
		return access.Identity{Tenant: owner, Scopes: tokenScopes}, nil
	case c.keys != nil && access.IsKey(token):
		return c.keys.Verify(ctx, token)
	case c.openID != nil:
		return c.openID.Verify(ctx, token)
	}
	return access.Identity{}, access.ErrUnknown
}
