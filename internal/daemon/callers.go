package daemon

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// callers identifies callers by their tokens and client certificates.
type callers struct {
	now          func() config.HTTP          // the configuration in force: its tokens, and whether keys are accepted
	keys         atomic.Pointer[access.Keys] // nil until keys are accepted for the first time
	openID       *access.Provider            // nil if none is accepted
	certificates *access.Certificates        // nil if none are accepted
	required     bool                        // each caller must have a certificate
	refused      func(error)                 // called for each refused request, with the reason
	log          *slog.Logger
}

// accept accepts the tokens of an OpenID provider, and returns the description of this server for
// its clients.
func (c *callers) accept(o config.OIDC) (resource *wire.Protected, err error) {
	if o.Issuer == "" {
		return nil, nil
	}
	c.openID, err = access.NewProvider(access.OIDC{Issuer: o.Issuer, Audience: o.Audience, Claim: o.Claim, Prefix: o.Prefix, Skew: o.Skew})
	resource = &wire.Protected{URL: o.Resource, Issuers: []string{o.Issuer}, ScopePrefix: o.Prefix,
		First: o.Prefix + string(access.Execute)}
	for _, s := range access.Scopes {
		resource.Scopes = append(resource.Scopes, o.Prefix+string(s))
	}
	return resource, err
}

// loginAdvice returns how a client authenticates that looks for an authorization server here; "" if it
// need not.
func loginAdvice(h config.HTTP) string {
	switch {
	case h.OIDC.Issuer != "":
		return fmt.Sprintf("this server issues no tokens: log in at %s, which /.well-known/oauth-protected-resource names", h.OIDC.Issuer)
	case h.TLS.ClientCA != "" && !h.TLS.ClientOptional:
		return "this server has no OAuth login: connect with a client certificate, which its operator issues"
	case h.Authenticated():
		return "this server has no OAuth login: configure the client to send the header Authorization: Bearer TOKEN, with a token or API " +
			"key that its operator issues"
	}
	return ""
}

// tokenScopes are the scopes of a token in the configuration.
var tokenScopes = []access.Scope{access.Execute, access.Files, access.Approve}

// open opens the keys of the data directory if a configuration accepts keys.
func (c *callers) open(h config.HTTP, keys func() (*access.Keys, error)) error {
	if !h.Keys || c.keys.Load() != nil {
		return nil
	}
	opened, err := keys()
	if err == nil {
		c.keys.Store(opened)
	}
	return err
}

func (c *callers) close() {
	if keys := c.keys.Load(); keys != nil {
		_ = keys.Close()
	}
}

// verifier returns a function that returns the identity of a caller. It refuses each caller if the
// configuration in force accepts none.
func (c *callers) verifier() func(context.Context, access.Credentials) (access.Identity, error) {
	return func(ctx context.Context, given access.Credentials) (access.Identity, error) {
		who, err := c.verify(ctx, given)
		switch {
		case err == nil:
			return who, nil
		case errors.Is(err, access.ErrUnknown):
			c.refused(err)
			return access.Identity{}, err
		}
		c.log.Error("verify a token", "error", err)
		return access.Identity{}, fault.New(fault.Unavailable, "the token cannot be verified now")
	}
}

// verify returns the identity that the certificate and the token agree on. Each that is given must
// be valid, so that a wrong one is not hidden by the other.
func (c *callers) verify(ctx context.Context, given access.Credentials) (access.Identity, error) {
	if c.certificates == nil || len(given.Chain) == 0 && !c.required {
		return c.verifyToken(ctx, given.Token)
	}
	who, err := c.certificates.Verify(given.Chain)
	if err != nil || given.Token == "" {
		return who, err
	}
	also, err := c.verifyToken(ctx, given.Token)
	if err != nil {
		return access.Identity{}, err
	}
	return access.Both(who, also)
}

// verifyToken takes the same time for every wrong token of the configuration.
func (c *callers) verifyToken(ctx context.Context, token string) (access.Identity, error) {
	var owner tenant.ID
	given := sha256.Sum256([]byte(token))
	h := c.now()
	for _, t := range h.Tokens {
		if known := sha256.Sum256([]byte(t.Secret)); subtle.ConstantTimeCompare(given[:], known[:]) == 1 {
			owner = t.Tenant
		}
	}
	switch {
	case !owner.IsZero():
		return access.Identity{Tenant: owner, Scopes: tokenScopes}, nil
	case h.Keys && access.IsKey(token):
		return c.keys.Load().Verify(ctx, token)
	case c.openID != nil:
		return c.openID.Verify(ctx, token)
	}
	return access.Identity{}, access.ErrUnknown
}
