// Package network sends HTTP requests of code that the operator allows.
//
// A Rule allows requests to a host by scheme, port, method and path, and may name a secret that is
// added to them. Rules are checked twice: Check refuses a request by its URL before anything else
// is decided about it, and a connection refuses addresses that are not public unless a rule lists
// them. A name is resolved once for each connection, which is made to an address of that answer.
//
// Redirects are not followed: the caller sends another request, which needs its own decision. Proxies of
// the environment are not used. Requests use HTTP/1.1. A response is decompressed and bounded in
// bytes and time; a body too large for memory becomes a file of the workspace.
//
// A Client is safe for concurrent use. It applies no policy and redacts nothing.
package network

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/spool"
)

// Limits of a request and its response.
const (
	maxRequests     = 1000 // of one execution
	maxMemory       = 4 << 20
	maxBody         = 256 << 20 // of a body in a file
	maxUnstored     = 32 << 20  // of a body in memory that cannot be stored
	maxHeaderBytes  = 64 << 10  // of a request
	maxHeaders      = 100
	maxAnswerHeader = 256 << 10
	dialTimeout     = 10 * time.Second
)

// Config of a Client.
type Config struct {
	Rules *Rules // nil allows nothing
	// Resolve resolves the references in the value of a secret's header. nil means that values are
	// used as they are.
	Resolve func(ctx context.Context, header, value string) (string, error)
	// Lookup returns the addresses of a host name; nil means the resolver of the system.
	Lookup    func(ctx context.Context, host string) ([]netip.Addr, error)
	RootCAs   *x509.CertPool // nil means those of the system
	Spool     *spool.Spool   // of large bodies while they are received; nil refuses them
	UserAgent string         // of requests that name none; "" means sandpiper
}

// Client sends requests.
type Client struct {
	cfg Config
	// public has the connections to public addresses. A rule that lists others has its own: a
	// request that another rule allows must not use them.
	public  *http.Transport
	private map[int]*http.Transport // by number of the rule
	done    chan struct{}
	closed  sync.Once

	mu   sync.Mutex
	made [2]map[string]int // requests by execution: of recent executions, and of those before
}

// New returns a Client.
func New(cfg Config) *Client {
	if cfg.Rules == nil {
		cfg.Rules = &Rules{}
	}
	if cfg.Resolve == nil {
		cfg.Resolve = func(_ context.Context, _, value string) (string, error) { return value, nil }
	}
	if cfg.Lookup == nil {
		cfg.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "sandpiper")
	c := &Client{cfg: cfg, done: make(chan struct{}), private: map[int]*http.Transport{}}
	c.public = newTransport(cfg, rule{})
	for _, r := range cfg.Rules.all {
		if r.isPrivate() {
			c.private[r.number] = newTransport(cfg, r)
		}
	}
	return c
}

// newTransport returns a transport to public addresses, and to those that a rule lists.
func newTransport(cfg Config, r rule) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, at string) (net.Conn, error) {
			return dial(ctx, cfg.Lookup, r, network, at)
		},
		TLSHandshakeTimeout: dialTimeout,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.RootCAs},
		DisableCompression:  true, MaxResponseHeaderBytes: maxAnswerHeader,
		MaxIdleConnsPerHost: 8, MaxIdleConns: 64, IdleConnTimeout: time.Minute,
	}
}

// transport returns the transport for the requests that a rule allows.
func (c *Client) transport(r rule) *http.Transport {
	if t := c.private[r.number]; t != nil {
		return t
	}
	return c.public
}

// Tools returns the tools of the Client as those of server.
func (c *Client) Tools(_ context.Context, server string) (tools []tool.Definition, notes []string, err error) {
	return definitions(server), nil, nil
}

// Call sends the request of a call. The error is a *tool.Failure unless the response cannot be used.
func (c *Client) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	q, err := c.cfg.Rules.request(call)
	if err != nil {
		return tool.Result{}, err
	}
	if !c.count(call.Execution) {
		return tool.Result{}, refuse(call.Ref, "requests", "the code has made %d requests, which is the limit of one execution: request "+
			"more data at once, or continue in another execution", maxRequests)
	}
	return c.send(ctx, call, q)
}

// remembered is how many executions the Client counts before it forgets older ones.
const remembered = 4096

// count counts a request of an execution, and reports whether it may be made.
func (c *Client) count(execution string) bool {
	if execution == "" {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made[0] == nil || len(c.made[0]) >= remembered {
		c.made[1], c.made[0] = c.made[0], map[string]int{}
	}
	n := max(c.made[0][execution], c.made[1][execution])
	if n < maxRequests {
		c.made[0][execution] = n + 1
	}
	return n < maxRequests
}

// lookup returns the addresses of a host name.
type lookup = func(ctx context.Context, host string) ([]netip.Addr, error)

// dial connects to an address of a host that may be reached by a rule.
func dial(ctx context.Context, find lookup, r rule, network, hostPort string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	addrs, err := resolve(ctx, find, r, host)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTimeout}
	for _, a := range addrs {
		var conn net.Conn
		if conn, err = d.DialContext(ctx, network, net.JoinHostPort(a.String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// errAddress is the error for a host with an address that may not be reached.
type errAddress struct{ host string }

func (e errAddress) Error() string { return e.host + " has an address that is not public" }

// resolve returns the addresses of a host. One that may not be reached by the rule refuses them
// all.
func resolve(ctx context.Context, find lookup, r rule, host string) ([]netip.Addr, error) {
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, a)
	} else if addrs, err = find(ctx, host); err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if !isPublic(a) && !r.lists(a) {
			return nil, errAddress{host}
		}
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

// Done returns a channel that Close closes.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close closes idle connections. Calls in flight end with their contexts.
func (c *Client) Close() {
	c.closed.Do(func() {
		close(c.done)
		c.public.CloseIdleConnections()
		for _, t := range c.private {
			t.CloseIdleConnections()
		}
	})
}
