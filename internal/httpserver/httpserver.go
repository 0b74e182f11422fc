// Package httpserver serves an http.Handler to untrusted clients: slow ones, idle
// ones, ones that send large bodies, and web pages that attack local servers. It
// handles paths, limits, origins and certificates, and no MCP.
//
// Without a token it listens on loopback addresses only. A Server serves once; its
// methods are safe for concurrent use.
package httpserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Config of a Server.
type Config struct {
	MCP    http.Handler // at /mcp; required
	Events http.Handler // at /sse; nil means none
	// Metadata describes how to authenticate (RFC 9728), at
	// /.well-known/oauth-protected-resource and below, to any web page; nil means none.
	Metadata http.Handler
	// Login is the answer to clients that look for an authorization server here, which is how they
	// authenticate instead; "" means that such paths do not exist.
	Login string
	// Pages serves web pages to persons, at PagesPath and below; nil means none.
	Pages     http.Handler
	PagesPath string
	// TLS encrypts connections, and offers HTTP/2; nil means plain HTTP/1.
	TLS *tls.Config
	// Ready returns the reason why the daemon is not ready, for /readyz; nil means
	// always ready.
	Ready func(context.Context) error
	// Drain waits for running requests until its context ends, then cancels them;
	// nil means no requests need draining.
	Drain func(context.Context) error
	Grace time.Duration // for Drain; 0 means 5 s
	// Connections limits open connections, AddressConnections those of one address;
	// 0 means 4096 and 2048. Another connection replaces an idle one, or is served
	// health checks only if none is idle.
	Connections, AddressConnections int
	// Descriptors is the number of open descriptors of the process above which no
	// connections are added; 0 means three quarters of its limit.
	Descriptors int
	// Headers is the time limit for request headers; 0 means 10 s.
	Headers time.Duration
	// Stalled is the time limit for each 256 KiB of a request body and for each write of a
	// response; 0 means 30 s.
	Stalled time.Duration
	Log     *slog.Logger // nil means discard
}

func (c Config) withDefaults() Config {
	if c.Ready == nil {
		c.Ready = func(context.Context) error { return nil }
	}
	if c.Drain == nil {
		c.Drain = func(context.Context) error { return nil }
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
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
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Server serves MCP over HTTP.
type Server struct {
	cfg      Config
	origins  *http.CrossOriginProtection
	stopping atomic.Bool
	stops    time.Time // the end of Drain; set before stopping
}

// New checks cfg and returns a Server.
func New(cfg Config) (*Server, error) {
	if cfg.MCP == nil {
		return nil, errors.New("httpserver: a handler for MCP is required")
	}
	cfg = cfg.withDefaults()
	return &Server{cfg: cfg, origins: http.NewCrossOriginProtection()}, nil
}

// Listen opens addr, "host:port"; port 0 means any free port. It refuses an address
// that other machines can reach unless requests are authenticated.
func Listen(ctx context.Context, addr string, authenticated bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the address %.100q is not of the form host:port, such as 127.0.0.1:8765", addr)
	}
	ips, err := new(net.Resolver).LookupIPAddr(ctx, host)
	if host != "" && err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the host %.100q of the address cannot be resolved", host)
	}
	open := host == ""
	for _, ip := range ips {
		open = open || !ip.IP.IsLoopback()
	}
	if open && !authenticated {
		return nil, fault.New(fault.Denied, "%s can be reached from other machines, but no token is required", addr).
			WithHint("set http.token, or listen on 127.0.0.1")
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot listen on %s: %s", addr, cause(err))
	}
	return ln, nil
}

// cause returns the innermost message of a network error, without addresses.
func cause(err error) string {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err.Error()
}

// Serve serves ln until ctx ends, then drains running requests for a limited time. It
// closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	g := newGate(ln, limits{all: s.cfg.Connections, address: s.cfg.AddressConnections, health: healthChecks,
		descriptors: uintptr(s.cfg.Descriptors)})
	srv := &http.Server{
		Handler:           g.track(s.health(), s.handler()),
		ConnContext:       g.connContext,
		ReadHeaderTimeout: s.cfg.Headers,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		TLSConfig:         s.cfg.TLS,
	}
	failed := make(chan error, 1)
	go func() { failed <- s.serve(srv, g) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.stops = time.Now().Add(s.cfg.Grace)
	s.stopping.Store(true)
	err := s.drain()
	err = errors.Join(err, srv.Close())
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (s *Server) serve(srv *http.Server, ln net.Listener) error {
	if s.cfg.TLS == nil {
		return srv.Serve(ln)
	}
	return srv.ServeTLS(ln, "", "")
}

func (s *Server) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Grace)
	defer cancel()
	return s.cfg.Drain(ctx)
}

// healthChecks is the number of connections reserved for health checks.
const healthChecks = 16

func isHealth(path string) bool { return path == "/healthz" || path == "/readyz" }

func (s *Server) health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("/", notFound)
	return checkProbeHost(mux)
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "not found; MCP is at /mcp", http.StatusNotFound)
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.guard(s.cfg.MCP))
	mux.Handle("/mcp/p/{subset}", s.guard(s.cfg.MCP))
	if s.cfg.Events != nil {
		mux.Handle("/sse", s.guard(s.cfg.Events))
	}
	if s.cfg.Metadata != nil {
		mux.Handle("/.well-known/oauth-protected-resource/", s.cfg.Metadata)
		mux.Handle("/.well-known/oauth-protected-resource", s.cfg.Metadata)
	}
	if s.cfg.Login != "" {
		for _, path := range []string{"/.well-known/", "/register", "/authorize", "/token"} {
			mux.HandleFunc(path, s.refuseLogin)
		}
	}
	if s.cfg.Pages != nil {
		mux.Handle(s.cfg.PagesPath, s.guard(s.cfg.Pages))
	}
	mux.HandleFunc("/", notFound)
	return mux
}

// refuseLogin answers a client of OAuth as an authorization server does, so that clients show the reason.
func (s *Server) refuseLogin(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": "access_denied", "error_description": s.cfg.Login})
}

// ready is the readiness check for load balancers.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	var err error = fault.New(fault.Unavailable, "stopping")
	if !s.stopping.Load() {
		err = s.cfg.Ready(r.Context())
	}
	if err != nil {
		http.Error(w, fault.Message(err), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// retryAfter returns when clients of a stopping server may try again, in seconds: when this one has
// certainly stopped accepting connections. With another one behind the same address they may try at once.
func (s *Server) retryAfter() string {
	return strconv.Itoa(int(max(0, time.Until(s.stops))/time.Second) + 1)
}

// guard rejects cross-origin requests, and limits the time of a request.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.stopping.Load() {
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", s.retryAfter())
			http.Error(w, "Sandpiper is stopping; try again in a moment", http.StatusServiceUnavailable)
			return
		}
		if err := s.checkOrigin(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		rc := http.NewResponseController(w)
		if r.Body != http.NoBody { // the deadline would end a stream without a body
			_ = rc.SetReadDeadline(time.Now().Add(s.cfg.Stalled))
		}
		r.Body = &body{ReadCloser: r.Body, rc: rc, stalled: s.cfg.Stalled}
		limited := &writer{ResponseWriter: w, rc: rc, stalled: s.cfg.Stalled, timed: r.ProtoMajor > 1}
		next.ServeHTTP(limited, r)
		limited.begin() // what is buffered is sent when the handler has returned
	})
}

// checkOrigin rejects cross-origin browser requests with any method, since a GET can
// open a stream. A page may be opened by a link anywhere.
func (s *Server) checkOrigin(r *http.Request) error {
	if err := checkHost(r); err != nil {
		return err
	}
	if s.cfg.Pages != nil && strings.HasPrefix(r.URL.Path, s.cfg.PagesPath) && r.Method == http.MethodGet {
		return nil
	}
	asPost := *r
	asPost.Method = http.MethodPost
	if err := s.origins.Check(&asPost); err != nil {
		return fmt.Errorf("requests from the origin %.100q are not allowed", r.Header.Get("Origin"))
	}
	return nil
}

// progress is the number of bytes of a body that must arrive within Config.Stalled.
const progress = 256 << 10

// body is a request body. It has a deadline for its next part.
type body struct {
	io.ReadCloser
	rc      *http.ResponseController
	stalled time.Duration
	read    int // since the deadline was set
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += n
	switch {
	case err == io.EOF: // waiting for the response has no deadline
		_ = b.rc.SetReadDeadline(time.Time{})
	case b.read >= progress:
		b.read = 0
		_ = b.rc.SetReadDeadline(time.Now().Add(b.stalled))
	}
	return n, err
}

// writer limits the time of each write to a client.
type writer struct {
	http.ResponseWriter
	rc      *http.ResponseController
	stalled time.Duration
	// timed marks a stream of HTTP/2, which ends at its deadline even if nothing is being written.
	timed bool
}

func (w *writer) begin() { _ = w.rc.SetWriteDeadline(time.Now().Add(w.stalled)) }

func (w *writer) end() {
	if w.timed {
		_ = w.rc.SetWriteDeadline(time.Time{})
	}
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	w.begin()
	defer w.end()
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *writer) Flush() {
	w.begin()
	defer w.end()
	_ = w.rc.Flush()
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
