// Package oauth obtains, stores and renews access tokens for MCP servers over HTTP
// (OAuth 2.1 as profiled by MCP).
//
// A Login uses the authorization code grant with PKCE: a person opens a URL in a browser
// once. Its tokens are stored encrypted on disk; every process with the same Store uses
// them, renews them and notices changes. ClientCredentials uses the client credentials
// grant, which needs no person, and stores nothing. Both provide the current token to a
// connection, and renew it when the server rejects it.
//
// Terms: a challenge is a server response that requires a token; an authServer is the
// metadata of an authorization server together with the resource; a record is a stored
// login. The metadata of a server is untrusted: only its https URLs are used, and loopback
// URLs only if the MCP server is on loopback itself; a token is sent only to the server
// that it was issued for.
//
// Both types are safe for concurrent use. The package opens no browser, implements no
// MCP, and puts no token into errors. Errors are faults whose message is a predicate:
// the caller puts the server's name first.
package oauth

import (
	"context"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Config of a Login or a ClientCredentials.
type Config struct {
	Server string        // name of the server in the configuration
	URL    string        // URL of the server
	Client Client        // client at its authorization server
	Store  *secret.Store // storage of a Login, which requires it
	// OnSecret is called with every token, so that it can be redacted. It must not block;
	// nil ignores tokens.
	OnSecret func(string)
	Log      *slog.Logger // nil discards
}

// Challenge is a server response that requires a token, or one with more scopes.
type Challenge = upstream.Challenge

func (c Config) withDefaults() Config {
	if c.OnSecret == nil {
		c.OnSecret = func(string) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// loginRequired returns an error whose remedy is a login.
func (c Config) loginRequired(format string, args ...any) *fault.Error {
	return fault.New(fault.Denied, format, args...).WithHint("run `sandpiper tools login %s`", fault.ShellQuote(c.Server))
}

// requestedScopes returns the scopes to request, including those already granted.
func (c Client) requestedScopes(wanted Challenge, granted []string, p authServer) []string {
	ask := c.Scopes
	switch {
	case ask != nil && wanted.InsufficientScope:
		ask = append(slices.Clone(ask), wanted.Scopes...)
	case ask == nil && len(wanted.Scopes) > 0:
		ask = wanted.Scopes
	case ask == nil:
		ask = p.scopes
	}
	all := slices.Clone(granted)
	for _, s := range ask {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// renewBefore is how long before its expiry a token is renewed; a short-lived token is
// renewed after nine tenths of its lifetime.
const renewBefore = 10 * time.Second

// needsRenewal reports whether a token expires soon. issued is zero if unknown.
func needsRenewal(issued, expiry time.Time) bool {
	ahead := renewBefore
	if !issued.IsZero() {
		ahead = min(ahead, expiry.Sub(issued)/10)
	}
	return !expiry.IsZero() && time.Now().After(expiry.Add(-ahead))
}

// rejectedToken remembers a new token that was rejected, so that a server that rejects
// all tokens does not cause a request with every call.
type rejectedToken struct {
	mu    sync.Mutex
	token string
	until time.Time
}

// rejectedTTL is how long a rejected new token is not replaced.
const rejectedTTL = time.Minute

// recentlyRejected reports whether the token was obtained and rejected recently, so that
// it is not replaced. isNew records a rejected token that was just obtained.
func (u *rejectedToken) recentlyRejected(token string, isNew bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if isNew {
		u.token, u.until = token, time.Now().Add(rejectedTTL)
	}
	return token != "" && token == u.token && time.Now().Before(u.until)
}

// ctxMutex is a mutex whose lock can be cancelled.
type ctxMutex chan struct{}

func (t ctxMutex) lock(ctx context.Context) (release func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// grace is how long an exchange continues after its caller is cancelled: where
// refresh tokens rotate, a lost response loses the login.
const grace = 2 * time.Second

// withGrace returns a context that ends grace after ctx.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return longer, func() { stop(); cancel() }
}

// issuerOrigin returns the origin of an authorization server for messages.
func issuerOrigin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(invalid URL)"
	}
	return u.Scheme + "://" + u.Host
}
