// Package oauth obtains the tokens that servers over HTTP ask for (OAuth 2.1 as
// MCP uses it), keeps them and renews them.
//
// A Login is a person's: they open an address in a browser once, what comes of it
// is kept sealed on disk, and every process that has the same Safe uses it, renews
// it and sees when it changes. A Machine has credentials of its own and asks for
// tokens when it needs them; nothing of it is kept. Both answer two questions of a
// connection: which token to send, and what to do now that it was refused.
//
// Words: a challenge is a refusal that asks for a token; a place is an
// authorization server with what it has to be told about the server; a record is
// what a login left. Where a server says that its tokens are given is its own
// word: addresses are followed only over TLS, or on this machine if the server is
// there, and a token goes to the server that it was given for and to no other.
//
// Both types are safe for concurrent use. The package opens no browser, speaks no
// MCP and shows no token, in errors neither. Errors are faults whose message goes
// behind the name of the server.
package oauth

import (
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

// Config of a Login or a Machine.
type Config struct {
	Server string        // its name in the configuration
	URL    string        // where it is reached
	Client Client        // who we are to its authorization server
	Safe   *secret.Store // where a Login is kept; required for one
	// Secret is told of every token, so that it can be kept out of texts. It must
	// return soon; nil means that nobody asks.
	OnSecret func(string)
	Log      *slog.Logger // nil discards
}

// Client is who we are to an authorization server. The zero value registers
// itself where that is possible.
type Client struct {
	ID       string   // as registered before; "" means that we were not
	Secret   string   // that came with it; "" means none
	Key      string   // in place of a secret: a private key in PEM
	Document string   // URL of a client id metadata document, for servers that take one
	Issuer   string   // the authorization server that ID and Secret are for; "" believes the server
	Redirect string   // where a browser comes back to, on this machine; "" means /callback at a free port of 127.0.0.1
	Scopes   []string // to ask for; nil asks for those that the server names
}

// Challenge is the refusal of a server that asks for a token, or for a better one.
type Challenge struct {
	Metadata          string   `json:"metadata,omitempty"` // where the server describes itself; "" if it did not say
	Scopes            []string `json:"scopes,omitempty"`   // that it wants; nil if it did not say
	InsufficientScope bool     `json:"more,omitempty"`     // the token is good, and has too few rights
	AfterRenewal      bool     `json:"-"`                  // the token was obtained because another had been refused
}

func (c Config) withDefaults() Config {
	if c.OnSecret == nil {
		c.OnSecret = func(string) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// denied is an error that a login cures.
func (c Config) loginRequired(format string, args ...any) *fault.Error {
	return fault.New(fault.Denied, format, args...).WithHint("run `sandpiper tools login %s`", shellQuote(c.Server))
}

// shown is a name as a shell takes it.
func shellQuote(name string) string {
	if strings.ContainsAny(name, " \t'\"$`\\&;|<>()*?") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}

// scopes are what to ask for: what was granted before stays granted.
func (c Config) requestedScopes(wanted Challenge, granted []string, p authServer) []string {
	ask := c.Client.Scopes
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

// early is how long before its end a token is renewed, but for one with a short
// life, which is used for nine tenths of that.
const renewBefore = 10 * time.Second

// ending tells of a token whether it is to be renewed. given is zero if it is not
// known when that was.
func needsRenewal(given, end time.Time) bool {
	ahead := renewBefore
	if !given.IsZero() {
		ahead = min(ahead, end.Sub(given)/10)
	}
	return !end.IsZero() && time.Now().After(end.Add(-ahead))
}

// useless remembers a token that was refused though it was new: a server that
// takes none must not have one made with every call.
type rejectedToken struct {
	mu    sync.Mutex
	token string
	until time.Time
}

// rest is how long such a token is not replaced.
const rejectedTTL = time.Minute

// refuses tells whether to leave a token as it is; again says that it is new.
func (u *rejectedToken) recentlyRejected(token string, again bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if again {
		u.token, u.until = token, time.Now().Add(rejectedTTL)
	}
	return token != "" && token == u.token && time.Now().Before(u.until)
}

// turn lets one at a time, for who may stop to wait.
type ctxMutex chan struct{}

func (t ctxMutex) lock(ctx context.Context) (release func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// grace is how long an exchange goes on for which nobody waits any more: a
// renewal that the authorization server has begun is lost with its answer.
const grace = 2 * time.Second

// outlive returns a context that ends some time after ctx.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return longer, func() { stop(); cancel() }
}

// host names an authorization server in a sentence.
func issuerHost(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "at an address that is none"
	}
	return u.Scheme + "://" + u.Host
}
