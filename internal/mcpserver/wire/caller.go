package wire

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Caller is the result of authentication.
type Caller struct {
	Name    string
	Scopes  []string  // nil means all
	Expires time.Time // zero means never
}

// authenticator determines the caller of every request, on every transport, from its token and the
// client certificate of its connection. No other code reads them.
type authenticator struct {
	verify  func(context.Context, access.Credentials) (Caller, error) // nil requires no authentication
	unnamed string                                                    // the caller where none is required
	// metadata is the URL of the protected-resource metadata, for the challenge; "" for none.
	metadata string
	first    string        // scope to request for a first token, as Protected.First
	prefix   string        // of scopes in tokens of the provider
	ask      string        // scope of answers to questions, as Config.AskScope
	recheck  time.Duration // as HTTPConfig.Recheck
	changed  *changed      // wakes recheckStream
}

// callerFrom returns the caller of the HTTP request that ctx is derived from, or "" if a
// token is required and the request had none.
func (a authenticator) callerFrom(ctx context.Context) string {
	if a.verify == nil {
		return a.unnamed
	}
	if info := auth.TokenInfoFromContext(ctx); info != nil {
		return info.UserID
	}
	return ""
}

// callerOf returns the caller of req, or "" if a token is required and req has none. The
// SDK derives ctx from the request that opened the connection, and with most
// transports adds the token of the request that brought req: both must agree.
func (a authenticator) callerOf(ctx context.Context, req mcp.Request) string {
	caller := a.callerFrom(ctx)
	if x := req.GetExtra(); a.verify != nil && x != nil && x.TokenInfo != nil && x.TokenInfo.UserID != caller {
		return ""
	}
	return caller
}

// has reports whether the token of the HTTP request that ctx is derived from has a scope.
func (a authenticator) has(ctx context.Context, scope string) bool {
	return hasScope(auth.TokenInfoFromContext(ctx), scope)
}

// missing returns those of some scopes that the token of an HTTP request does not have.
func (a authenticator) missing(ctx context.Context, scopes []string) (missing []string) {
	for _, scope := range scopes {
		if a.verify != nil && !a.has(ctx, scope) {
			missing = append(missing, scope)
		}
	}
	return missing
}

// mayUse reports whether the caller of req has a scope. Only the token of the request that brought
// req counts: the one that opened the connection may be older, and have more or fewer scopes.
func (a authenticator) mayUse(ctx context.Context, req mcp.Request, scope string) bool {
	if x := req.GetExtra(); x != nil && x.TokenInfo != nil {
		return hasScope(x.TokenInfo, scope)
	}
	return a.verify == nil || a.has(ctx, scope)
}

// hasScope reports whether a token has a scope; "" means that none is needed.
func hasScope(t *auth.TokenInfo, scope string) bool {
	return scope == "" || t != nil && (t.Scopes == nil || slices.Contains(t.Scopes, scope))
}

// extraOf returns what a message carries of the HTTP request that brought it.
func extraOf(r *http.Request) *mcp.RequestExtra {
	return &mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context())}
}

// requireCaller rejects requests without a caller if a token is required. It does not rely on
// the transport to have checked.
func (a authenticator) requireCaller(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if a.verify != nil && a.callerOf(ctx, req) == "" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this server requires a token"}
		}
		return next(ctx, method, req)
	}
}

// authenticate requires valid credentials.
func (a authenticator) authenticate(h http.Handler) http.Handler {
	if a.verify == nil {
		return h
	}
	// Only the SDK can add the caller to a context.
	identified := func(_ context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
		return r.Context().Value(verified{}).(*auth.TokenInfo), nil
	}
	add := auth.RequireBearerToken(identified, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	next := add(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, stop := a.recheckStream(r)
		defer stop()
		h.ServeHTTP(w, r.WithContext(ctx))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = withToken(r)
		given, ok := credentialsOf(r)
		if !ok {
			a.refuse(w, nil)
			return
		}
		caller, err := a.verify(r.Context(), given)
		if err == nil && caller.Name == "" {
			err = fault.New(fault.Denied, "the token has no owner")
		}
		if err != nil {
			a.refuse(w, err)
			return
		}
		info := &auth.TokenInfo{UserID: caller.Name, Scopes: caller.Scopes, Expiration: caller.Expires}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), verified{}, info)))
	})
}

// verified is the context key of the caller of a request.
type verified struct{}

// refuse answers a request whose credentials are not valid, by RFC 6750; a nil err means that it
// has none. Credentials that cannot be verified now are no reason for a client to drop them.
func (a authenticator) refuse(w http.ResponseWriter, err error) {
	if err != nil && fault.KindOf(err) != fault.Denied {
		w.Header().Set("Retry-After", "10")
		http.Error(w, fault.Message(err), http.StatusServiceUnavailable)
		return
	}
	message, params := "no bearer token", []string(nil)
	if err != nil {
		message = fault.Message(err)
		params = append(params, `error="invalid_token"`, fmt.Sprintf("error_description=%q", message))
	}
	if a.metadata != "" {
		params = append(params, fmt.Sprintf("scope=%q, resource_metadata=%q", a.first, a.metadata))
	}
	w.Header().Set("WWW-Authenticate", strings.TrimSuffix("Bearer "+strings.Join(params, ", "), " "))
	http.Error(w, message, http.StatusUnauthorized)
}

// noToken marks the context of a request that has a client certificate and no token.
type noToken struct{}

// withToken adds a token to a request that has a client certificate only: the SDK requires one.
func withToken(r *http.Request) *http.Request {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || len(r.Header.Values("Authorization")) > 0 {
		return r
	}
	r = r.Clone(context.WithValue(r.Context(), noToken{}, true))
	r.Header.Set("Authorization", "Bearer none")
	return r
}

// credentialsOf returns the credentials of a request, and reports whether it has any. A header that
// is not a bearer token is none, also with a certificate.
func credentialsOf(r *http.Request) (c access.Credentials, ok bool) {
	if r.TLS != nil {
		c.Chain = r.TLS.PeerCertificates
	}
	if r.Context().Value(noToken{}) != nil {
		return c, true
	}
	fields := strings.Fields(r.Header.Get("Authorization"))
	if len(fields) != 2 || !strings.EqualFold(fields[0], "bearer") {
		return c, false
	}
	c.Token = fields[1]
	return c, true
}

// changed wakes all goroutines that wait for a change.
type changed struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next change; nil if nobody waits
}

func (c *changed) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

func (c *changed) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// recheckStream verifies the credentials of a stream at intervals and after HTTP.Recheck, and ends the
// returned context when they are refused, have another owner or lost a scope. The context of other requests is unchanged: a call completes.
func (a authenticator) recheckStream(r *http.Request) (ctx context.Context, stop func()) {
	if r.Method != http.MethodGet && r.Header.Get("Mcp-Method") != "subscriptions/listen" {
		return r.Context(), func() {}
	}
	accepted := a.stillAccepted(r)
	ctx, cancel := context.WithCancel(r.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(a.recheck)
		defer tick.Stop()
		for {
			again := a.changed.wait() // before the credentials are verified, also after the first time
			if !accepted() {
				cancel()
			}
			select {
			case <-ctx.Done():
				return
			case <-again:
			case <-tick.C:
			}
		}
	})
	return ctx, func() { cancel(); watch.Wait() }
}

// stillAccepted returns a function that reports whether the credentials of a request are accepted, of
// the same owner and with all scopes that they had.
func (a authenticator) stillAccepted(r *http.Request) func() bool {
	owner, had := a.callerFrom(r.Context()), auth.TokenInfoFromContext(r.Context())
	given, _ := credentialsOf(r)
	return func() bool {
		caller, err := a.verify(r.Context(), given)
		return err == nil && caller.Name == owner && (caller.Expires.IsZero() || time.Now().Before(caller.Expires)) && !lost(had, caller)
	}
}

// lost reports whether a caller no longer has one of the scopes of its token.
func lost(had *auth.TokenInfo, now Caller) bool {
	if had == nil || now.Scopes == nil {
		return false
	}
	return had.Scopes == nil || slices.ContainsFunc(had.Scopes, func(scope string) bool { return !slices.Contains(now.Scopes, scope) })
}
