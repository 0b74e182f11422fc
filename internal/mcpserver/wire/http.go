package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// HTTPConfig says how a Server speaks over HTTP.
type HTTPConfig struct {
	// Verify says whose a bearer token is, or that it is nobody's. Nil requires no
	// token: every client is Config.Caller.
	Verify func(ctx context.Context, token string) (caller string, err error)
	// MaxBody is the most bytes of one request; zero means 32 MiB, as a line may
	// have over stdio.
	MaxBody int64
	// Idle is how long a connection may be silent before it is forgotten; zero
	// means 30 minutes.
	Idle time.Duration
	// Return is how long a client of the older era, which may lose its
	// connection and come back for the answer, has until its calls are
	// cancelled; zero means 5 s.
	Return time.Duration
	// MaxConnections bounds the MCP connections that are remembered; zero means
	// 10,000. Clients beyond it are served without a memory of them.
	MaxConnections int
	// CallerConnections bounds those of one caller; zero means 1,000. One more
	// takes the place of the one that was silent longest.
	CallerConnections int
	// CallerRequests bounds the requests of one caller that are open at a time,
	// streams included; zero means 1,024.
	CallerRequests int
}

func (c HTTPConfig) withDefaults() HTTPConfig {
	if c.MaxBody == 0 {
		c.MaxBody = maxLine
	}
	if c.Idle == 0 {
		c.Idle = 30 * time.Minute
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

// stateless is the first revision of the protocol without connections. The SDK
// speaks it and the older ones in two handlers of which each refuses the other's.
const stateless = "2026-07-28"

// HTTP speaks MCP at one URL, in both eras, and at another the transport with
// server-sent events of 2024-11-05.
type HTTP struct {
	modern, older, events http.Handler

	server *mcp.Server
	offer  *offer
	owned  *connections
	posts  sync.RWMutex // read-locked by each request that is being answered
	kill   context.CancelCauseFunc

	maxBody int64
}

// HTTP returns handlers for s. Whoever serves them bounds time and connections;
// Close ends what runs.
func (s *Server) HTTP(cfg HTTPConfig) *HTTP { return s.http(cfg, &mcp.ServerOptions{}) }

// http is HTTP for a server that may offer more than tools.
func (s *Server) http(cfg HTTPConfig, opts *mcp.ServerOptions) *HTTP {
	cfg = cfg.withDefaults()
	alive, kill := context.WithCancelCause(context.Background())
	h := &HTTP{kill: kill, maxBody: cfg.MaxBody}
	present, greeted := newAttendance(cfg.Return), newGreetings()
	opts.GetSessionID, opts.InitializedHandler = h.sessionID(cfg.MaxConnections), greeted.initialized
	who := callers{verify: cfg.Verify, unnamed: s.cfg.Caller}
	h.server, h.offer = s.build(alive, who, opts)
	h.server.AddReceivingMiddleware(present.attend)
	server := func(*http.Request) *mcp.Server { return h.server }
	h.owned = newConnections(who, cfg.CallerConnections, present.dismiss)
	h.server.AddReceivingMiddleware(h.owned.remember)
	open := newTurns(who, cfg.CallerRequests)
	h.modern = who.identified(open.bound(mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: cfg.MaxBody,
	})))
	h.older = who.identified(open.bound(h.owned.watch(present.watch(greeted.watch(mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{
		EventStore: h.owned, SessionTimeout: cfg.Idle, MaxRequestBodyBytes: cfg.MaxBody,
	}))))))
	h.events = who.identified(open.bound(newEventStreams(h.server, who, cfg.MaxBody)))
	return h
}

// sessionID names a new connection, or leaves it without a name, and so without
// a memory, when there are too many.
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
	if r.ContentLength > h.maxBody {
		http.Error(w, fmt.Sprintf("a request has at most %d bytes, not %d", h.maxBody, r.ContentLength), http.StatusRequestEntityTooLarge)
		return
	}
	r.Header.Del(numberHeader) // it is ours
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

// Events is the handler of the transport of 2024-11-05.
func (h *HTTP) Events() http.Handler { return h.events }

// Drain lets the calls that run end until ctx does, cancels the rest, and ends
// all connections. Whoever calls it lets no more requests in.
func (h *HTTP) Drain(ctx context.Context) error {
	h.offer.close() // a subscription would go on for ever
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
		select { // for the answers that say so
		case <-ended:
		case <-time.After(time.Second):
		}
	}
	return h.Close()
}

// Close cancels all calls and ends all connections.
func (h *HTTP) Close() error {
	h.kill(errStopped)
	var errs []error
	for c := range h.server.Sessions() {
		errs = append(errs, c.Close())
	}
	h.offer.close()
	return errors.Join(errs...)
}
