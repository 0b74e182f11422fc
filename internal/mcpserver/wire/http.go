package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/sandpiper-mcp/sandpiper/internal/home/stream"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
)

// HTTPConfig configures a Server over HTTP.
type HTTPConfig struct {
	// Verify returns the caller with a bearer token, a client certificate or both, or an error
	// whose message is sent. Nil means no authentication: every client is Config.Caller.
	Verify func(context.Context, access.Credentials) (Caller, error)
	// Foreign is called for each request with an id of another caller, which is answered
	// like an unknown one; nil means no call.
	Foreign func(caller string, f Foreign)
	// Answers calls use with the store of a caller's answers, in which those of connections
	// are kept for clients that resume a stream after a restart; nil means that none are kept.
	Answers func(ctx context.Context, caller string, use func(*stream.Store) error) error
	// Resource describes this server to clients that must authenticate; nil means that they
	// receive no description.
	Resource *Protected
	// Rates returns the state of a caller's quotas; nil means that there are none.
	Rates func(ctx context.Context, caller string) []Rate
	// Recheck is the interval at which the credentials of an open stream are verified again; 0 means
	// 10 s.
	Recheck time.Duration
	// MaxBody limits the size of a request; 0 means 32 MiB, as for a line over stdio.
	MaxBody int64
	// Idle is how long a connection may be idle before it expires; 0 means 30
	// minutes.
	Idle time.Duration
	// Absence is how long a client before 2026-07-28 may have no open request, such as the
	// stream of its connection, before the connection expires; 0 means 5 minutes.
	Absence time.Duration
	// Return is how long a client before 2026-07-28 that lost its connection may take
	// to resume before its calls are cancelled; 0 means 5 s.
	Return time.Duration
	// MaxConnections limits the stateful MCP connections; 0 means 10,000. Further
	// clients are served without connection state.
	MaxConnections int
	// CallerConnections limits them per caller; 0 means 1,000. Another connection
	// replaces the one that was idle longest.
	CallerConnections int
	// CallerRequests limits the open requests per caller, including streams; 0 means
	// 1,024.
	CallerRequests int
}

// Foreign is the kind of an id of another caller.
type Foreign string

const (
	ForeignConnection Foreign = "foreign_connection" // an MCP connection before 2026-07-28
	ForeignStream     Foreign = "foreign_stream"     // a stream of such a connection, or of HTTP+SSE
)

func (c HTTPConfig) withDefaults() HTTPConfig {
	if c.Foreign == nil {
		c.Foreign = func(string, Foreign) {}
	}
	if c.Recheck == 0 {
		c.Recheck = 10 * time.Second
	}
	if c.MaxBody == 0 {
		c.MaxBody = maxLine
	}
	if c.Idle == 0 {
		c.Idle = 30 * time.Minute
	}
	if c.Absence == 0 {
		c.Absence = 5 * time.Minute
	}
	if c.Return == 0 {
		c.Return = 5 * time.Second
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = 10_000
	}
	if c.CallerConnections == 0 {
		c.CallerConnections = 1000
	}
	if c.CallerRequests == 0 {
		c.CallerRequests = 1024
	}
	return c
}

// Protected is the protected-resource metadata of a server (RFC 9728).
type Protected struct {
	URL     string   // of /mcp, as clients know it
	Issuers []string // whose tokens are accepted
	Scopes  []string // that tokens may have, with ScopePrefix
	First   string   // the one that a client without a token requests, with ScopePrefix; others follow on demand
	// ScopePrefix precedes the scopes of Config in tokens.
	ScopePrefix string
}

// metadataPath is the path of protected-resource metadata; the path of the resource may follow.
const metadataPath = "/.well-known/oauth-protected-resource"

// metadataURL returns the URL of the metadata.
func (r *Protected) metadataURL() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + metadataPath + strings.TrimSuffix(u.Path, "/")
}

// Metadata is the handler of protected-resource metadata, or nil if there is no
// HTTPConfig.Resource.
func (h *HTTP) Metadata() http.Handler { return h.metadata }

func (r *Protected) handler() http.Handler {
	if r == nil {
		return nil
	}
	serve := auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: r.URL, AuthorizationServers: r.Issuers, ScopesSupported: r.Scopes, BearerMethodsSupported: []string{"header"},
		ResourceName: "Sandpiper",
	})
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodOptions {
			serve.ServeHTTP(w, req)
			return
		}
		h := w.Header() // the SDK does not allow the header that MCP's clients add
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Methods", "GET, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "Content-Type, MCP-Protocol-Version")
		w.WriteHeader(http.StatusNoContent)
	})
}

// stateless is the first protocol revision without connections. The SDK has separate
// handlers for it and for older revisions; each rejects the requests of the other.
const stateless = "2026-07-28"

// Revisions returns the supported revisions of MCP, the newest first.
func Revisions() []string { return mcp.SupportedProtocolVersions() }

// HTTP serves MCP in all revisions at one URL, and the HTTP+SSE transport of 2024-11-05 at
// another.
type HTTP struct {
	modern, older, events, metadata http.Handler

	server        *mcp.Server
	subscriptions *subscriptions
	owned         *connections
	posts         sync.RWMutex // read-locked during each request
	kill          context.CancelCauseFunc

	credentials changed // those that HTTPConfig.Verify accepts
	maxBody     int64
}

// Recheck verifies the credentials of all open streams, and ends those whose credentials are no longer
// accepted.
func (h *HTTP) Recheck() { h.credentials.announce() }

// HTTP returns handlers for s. The HTTP server must limit time and connections; Close
// ends running calls.
func (s *Server) HTTP(cfg HTTPConfig) *HTTP { return s.http(cfg, &mcp.ServerOptions{}) }

// http is HTTP with resources or a relay.
func (s *Server) http(cfg HTTPConfig, opts *mcp.ServerOptions) *HTTP {
	cfg = cfg.withDefaults()
	alive, kill := context.WithCancelCause(context.Background())
	h := &HTTP{kill: kill, maxBody: cfg.MaxBody, metadata: cfg.Resource.handler()}
	present, greeted := newAttendance(cfg.Return), newGreetings()
	scopes := scopeTable{s.cfg}
	present.scopeOf = scopes.scopeOf()
	opts.GetSessionID, opts.InitializedHandler = h.sessionID(cfg.MaxConnections), greeted.initialized
	authn := authenticator{verify: cfg.Verify, unnamed: s.cfg.Caller, recheck: cfg.Recheck, changed: &h.credentials, ask: s.cfg.AskScope}
	if cfg.Resource != nil {
		authn.metadata, authn.first, authn.prefix = cfg.Resource.metadataURL(), cfg.Resource.First, cfg.Resource.ScopePrefix
	}
	h.server, h.subscriptions = s.build(alive, authn, opts)
	h.server.AddReceivingMiddleware(present.attend)
	server := func(*http.Request) *mcp.Server { return h.server }
	h.owned = newConnections(authn, cfg, s, present.dismiss)
	h.server.AddReceivingMiddleware(h.owned.remember)
	requests := newRequestLimit(authn, cfg.CallerRequests)
	limit := func(next http.Handler) http.Handler { return withRates(authn, cfg.Rates, requests.limit(next)) }
	admit := func(next http.Handler) http.Handler {
		return authn.authenticate(limit(reserveBody(s.cfg.Memory, authn, cfg.MaxBody, scopes.challengeScope(authn, cfg.MaxBody, next))))
	}
	h.modern = admit(mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: cfg.MaxBody,
	}))
	h.older = admit(h.owned.watch(present.watch(greeted.watch(mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{
		EventStore: h.owned, SessionTimeout: cfg.Idle, MaxRequestBodyBytes: cfg.MaxBody,
	})))))
	h.events = authn.authenticate(limit(reserveBody(s.cfg.Memory, authn, cfg.MaxBody,
		newEventStreams(h.server, authn, scopes.scopeOf(), cfg))))
	return h
}

// sessionID returns the id of a new connection, or "" for one without state, if there
// are too many.
func (h *HTTP) sessionID(most int) func() string {
	return func() string {
		n := 0
		for range h.server.Sessions() {
			if n++; n >= most {
				return ""
			}
		}
		return rand.Text()
	}
}

// ServeHTTP implements http.Handler: streamable HTTP.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rejectLarge(w, r, h.maxBody) {
		return
	}
	r.Header.Del(numberHeader) // set by the server only
	noteChoice(r)
	noteRemote(r)
	noteOrigin(r)
	if r.Method == http.MethodPost {
		h.posts.RLock()
		defer h.posts.RUnlock()
	}
	if r.Header.Get("Mcp-Protocol-Version") >= stateless {
		h.modern.ServeHTTP(w, r)
		return
	}
	h.older.ServeHTTP(w, r)
}

// Events is the handler of the HTTP+SSE transport of 2024-11-05.
func (h *HTTP) Events() http.Handler { return h.events }

// Drain waits for running calls until ctx ends, cancels the rest, and closes all
// connections. The caller must not admit further requests.
func (h *HTTP) Drain(ctx context.Context) error {
	h.owned.answers.stopping.Store(true)
	h.subscriptions.close() // subscriptions never end by themselves
	ended := make(chan struct{})
	go func() {
		h.posts.Lock()
		defer h.posts.Unlock()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		h.kill(errStopped)
		select { // let the answers be sent
		case <-ended:
		case <-time.After(time.Second):
		}
	}
	return h.Close()
}

// Close cancels all calls and ends all connections.
func (h *HTTP) Close() error {
	h.owned.answers.stopping.Store(true)
	h.kill(errStopped)
	var errs []error
	for c := range h.server.Sessions() {
		errs = append(errs, c.Close())
	}
	h.subscriptions.close()
	return errors.Join(errs...)
}
