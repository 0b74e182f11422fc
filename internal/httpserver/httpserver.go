// Package httpserver puts an http.Handler on the network, for clients that
// nobody vouches for: slow ones, idle ones, huge ones and web pages that were
// made to reach it. It knows the paths and what HTTP itself allows, and nothing
// of MCP.
//
// Without a token it listens on loopback addresses only. A Server serves once;
// its methods are safe for concurrent use.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Config of a Server.
type Config struct {
	MCP    http.Handler // at /mcp; required
	Events http.Handler // at /sse; nil means there is none
	// Ready says why the daemon cannot do its work, for /readyz; nil means it
	// always can.
	Ready func(context.Context) error
	// Drain lets requests under way end until its context does, and then ends
	// them; nil means there is nothing to end.
	Drain func(context.Context) error
	Grace time.Duration // for Drain; 0 means 2 s
	// Connections bounds those that are open, and AddressConnections those of one
	// address; 0 means 4096 and 2048. One more takes the place of one without a
	// request, and may only ask for health if there is none.
	Connections, AddressConnections int
	// Descriptors is how many the process may have open before connections take no
	// more of them; 0 means three quarters of its limit.
	Descriptors int
	// Headers is how long a client may take over the headers; 0 means 10 s.
	Headers time.Duration
	// Stalled is how long a client may take over the body or the next
	// piece of an answer; 0 means 30 s.
	Stalled   time.Duration
	BodyBytes int64        // of large requests being read at a time, all together; 0 means 256 MiB
	Log       *slog.Logger // nil means discard
}

func (c Config) withDefaults() Config {
	if c.Ready == nil {
		c.Ready = func(context.Context) error { return nil }
	}
	if c.Drain == nil {
		c.Drain = func(context.Context) error { return nil }
	}
	if c.Grace == 0 {
		c.Grace = 2 * time.Second
	}
	if c.Connections == 0 {
		c.Connections = 4096
	}
	if c.AddressConnections == 0 {
		c.AddressConnections = 2048
	}
	if c.Descriptors == 0 {
		c.Descriptors = descriptors() / 4 * 3
	}
	if c.Headers == 0 {
		c.Headers = 10 * time.Second
	}
	if c.Stalled == 0 {
		c.Stalled = 30 * time.Second
	}
	if c.BodyBytes == 0 {
		c.BodyBytes = 256 << 20
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Server is one listening face.
type Server struct {
	cfg      Config
	bodies   *semaphore.Weighted
	origins  *http.CrossOriginProtection
	stopping atomic.Bool
}

// New checks cfg and returns a Server.
func New(cfg Config) (*Server, error) {
	if cfg.MCP == nil {
		return nil, errors.New("httpserver: a handler for MCP is required")
	}
	cfg = cfg.withDefaults()
	return &Server{cfg: cfg, bodies: semaphore.NewWeighted(cfg.BodyBytes), origins: http.NewCrossOriginProtection()}, nil
}

// Listen opens addr, "host:port" with port 0 for any that is free. An address
// that others can reach is refused unless clients have to show who they are.
func Listen(ctx context.Context, addr string, authenticated bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the address %.100q is not host:port, such as 127.0.0.1:8765", addr)
	}
	ips, err := new(net.Resolver).LookupIPAddr(ctx, host)
	if host != "" && err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the host %.100q of the address is not known", host)
	}
	open := host == ""
	for _, ip := range ips {
		open = open || !ip.IP.IsLoopback()
	}
	if open && !authenticated {
		return nil, fault.New(fault.Denied, "%s can be reached from other machines, and no token is asked for", addr).
			WithHint("set http.token, or listen on 127.0.0.1")
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot listen on %s: %s", addr, cause(err))
	}
	return ln, nil
}

// cause is the last part of a network error, without addresses.
func cause(err error) string {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err.Error()
}

// Serve answers on ln until ctx ends, then lets what runs end, for bounded time.
// It closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	g := newGate(ln, limits{all: s.cfg.Connections, address: s.cfg.AddressConnections, health: healthChecks, descriptors: uintptr(s.cfg.Descriptors)})
	srv := &http.Server{
		Handler:           g.during(s.health(), s.handler()),
		ConnContext:       g.with,
		ReadHeaderTimeout: s.cfg.Headers,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(g) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	err := s.drain()
	err = errors.Join(err, srv.Close())
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (s *Server) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Grace)
	defer cancel()
	return s.cfg.Drain(ctx)
}

// healthChecks is how many connections may ask for health alone.
const healthChecks = 16

func isHealth(path string) bool { return path == "/healthz" || path == "/readyz" }

func (s *Server) health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("/", nothing)
	return mux
}

func nothing(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "there is nothing here; MCP is at /mcp", http.StatusNotFound)
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.guard(s.cfg.MCP))
	if s.cfg.Events != nil {
		mux.Handle("/sse", s.guard(s.cfg.Events))
	}
	mux.HandleFunc("/", nothing)
	return mux
}

// ready answers load balancers: whether this daemon should be sent work.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	err := s.cfg.Ready(r.Context())
	if s.stopping.Load() {
		err = fault.New(fault.Unavailable, "stopping")
	}
	if err != nil {
		http.Error(w, fault.Message(err), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// guard refuses what a web page of somebody else sends, and bounds the time and
// memory that a client takes.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.stopping.Load() {
			w.Header().Set("Connection", "close")
			http.Error(w, "Sandpiper is stopping; try again in a moment", http.StatusServiceUnavailable)
			return
		}
		if err := s.foreign(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(time.Now().Add(s.cfg.Stalled))
		body := &body{ReadCloser: r.Body, s: s, rc: rc, ctx: r.Context(), expected: r.ContentLength}
		defer body.release()
		r.Body = body
		next.ServeHTTP(&writer{ResponseWriter: w, rc: rc, stalled: s.cfg.Stalled}, r)
	})
}

// foreign refuses a request that a browser sends for a page of another origin,
// whatever its method: a stream is more than a "safe" GET. On a loopback address
// it refuses other hosts too, which a page reaches by rebinding its name.
func (s *Server) foreign(r *http.Request) error {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && isLoopback(at.String()) && !isLoopback(r.Host) {
		return fmt.Errorf("this address is not served under the name %.100q", r.Host)
	}
	asPost := *r
	asPost.Method = http.MethodPost
	if err := s.origins.Check(&asPost); err != nil {
		return fmt.Errorf("this is not for web pages of another origin (%.100q)", r.Header.Get("Origin"))
	}
	return nil
}

// isLoopback reports whether addr, "host" or "host:port", is this machine.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// small is a body that needs no part of the budget.
const small = 64 << 10

// body is a request's body. A large one waits for its part of what all large ones
// may have in memory together.
type body struct {
	io.ReadCloser
	s        *Server
	rc       *http.ResponseController
	ctx      context.Context
	expected int64 // -1 if unknown
	read     int64
	held     int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.held == 0 && (b.read > small || b.expected > small) {
		if err := b.hold(); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err == io.EOF { // the wait for the answer has no deadline
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *body) hold() error {
	need := b.expected
	if need < 0 || need > largest {
		need = largest
	}
	ctx, cancel := context.WithTimeout(b.ctx, b.s.cfg.Stalled)
	defer cancel()
	if err := b.s.bodies.Acquire(ctx, min(need, b.s.cfg.BodyBytes)); err != nil {
		return fault.New(fault.Exhausted, "too many large requests at once")
	}
	b.held = min(need, b.s.cfg.BodyBytes)
	return nil
}

// largest is as much as is set aside for a body of unknown length.
const largest = 32 << 20

func (b *body) release() { b.s.bodies.Release(b.held) }

// writer gives up on a client that does not take the answer.
type writer struct {
	http.ResponseWriter
	rc      *http.ResponseController
	stalled time.Duration
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	_ = w.rc.SetWriteDeadline(time.Now().Add(w.stalled))
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *writer) Flush() {
	_ = w.rc.SetWriteDeadline(time.Now().Add(w.stalled))
	_ = w.rc.Flush()
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
