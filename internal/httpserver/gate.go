package httpserver

import (
	"container/list"
	"context"
	"crypto/tls"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// gate is a listener that limits its open connections: per address, in total, and by
// the descriptors of the process. It never queues a connection. A connection over a
// limit replaces the one that has been idle longest, so idle connections cannot lock
// out others; if none is idle, the connection is served health checks only.
type gate struct {
	net.Listener
	limits limits

	mu       sync.Mutex
	all      group
	reserve  group // connections that are served health checks only
	byAddr   map[netip.Prefix]*group
	evicting int        // evicted connections whose descriptor is still open
	evicted  *sync.Cond // signals that evicting has decreased

	scarceMax   int       // limit of connections after a shortage of descriptors
	scarceUntil time.Time // end of that limit
}

// scarceFor is how long scarceMax applies after a shortage.
const scarceFor = 10 * time.Second

// maxEvicting limits the evicted connections whose goroutines have not closed their
// descriptors yet.
const maxEvicting = 16

// limits of a gate; 0 means no limit.
type limits struct {
	all, address int
	health       int     // additional connections for health checks
	descriptors  uintptr // the lowest descriptor number reserved for health checks
}

// group counts open connections and lists the idle ones, longest idle first.
type group struct {
	open int
	idle list.List // of *conn
}

// conn is a connection that a gate has accepted.
type conn struct {
	net.Conn
	gate    *gate
	reserve bool
	groups  []*group        // that count it
	idle    []*list.Element // in groups; nil during requests
	running int             // requests; HTTP/2 has several at a time
	addr    netip.Prefix
	closed  bool
	evicted bool // but not yet closed by its goroutine
}

func newGate(ln net.Listener, l limits) *gate {
	g := &gate{Listener: ln, limits: l, byAddr: map[netip.Prefix]*group{}}
	g.evicted = sync.NewCond(&g.mu)
	return g
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := g.admit(c); admitted != nil {
			return admitted, nil
		}
		_ = c.Close()
	}
}

// admit counts a connection and evicts another if necessary. It returns nil if the
// connection exceeds the limits.
func (g *gate) admit(raw net.Conn) *conn {
	c := &conn{Conn: raw, gate: g, addr: addressOf(raw)}
	fd := descriptorOf(raw)
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.evicting >= maxEvicting {
		g.evicted.Wait()
	}
	own := g.byAddr[c.addr]
	if own == nil {
		own = &group{}
	}
	room := (g.limits.address == 0 || own.open < g.limits.address || g.evict(own)) &&
		(g.all.open < g.max(fd) || g.evict(&g.all))
	if room {
		g.byAddr[c.addr] = own // an eviction may have removed it
		c.groups = []*group{&g.all, own}
	} else {
		if g.reserve.open >= g.limits.health && !g.evict(&g.reserve) {
			return nil
		}
		c.reserve, c.groups = true, []*group{&g.reserve}
	}
	for _, in := range c.groups {
		in.open++
	}
	c.markIdle()
	return c
}

// max returns the limit of connections, given the descriptor of the newest. A
// connection that replaces an evicted one gets a low descriptor, so the number alone
// does not show that a shortage persists.
func (g *gate) max(fd uintptr) int {
	limit, now := g.limits.all, time.Now()
	if limit == 0 {
		limit = math.MaxInt
	}
	if g.limits.descriptors > 0 && fd >= g.limits.descriptors {
		// Others hold the descriptors if few connections are open.
		g.scarceMax, g.scarceUntil = max(g.all.open, int(min(g.limits.descriptors/64, 64))), now.Add(scarceFor)
	}
	if now.Before(g.scarceUntil) {
		limit = min(limit, g.scarceMax)
	}
	return limit
}

// evict closes the connection of a group that has been idle longest. It reports
// whether there was one.
func (g *gate) evict(from *group) bool {
	first := from.idle.Front()
	if first == nil {
		return false
	}
	c := first.Value.(*conn)
	c.uncount()
	c.evicted = true
	g.evicting++
	_ = c.Conn.Close()
	return true
}

// markIdle records that c has no request; the caller holds the lock.
func (c *conn) markIdle() {
	for _, in := range c.groups {
		c.idle = append(c.idle, in.idle.PushBack(c))
	}
}

// markBusy records that c has a request; the caller holds the lock.
func (c *conn) markBusy() {
	for i, at := range c.idle {
		c.groups[i].idle.Remove(at)
	}
	c.idle = nil
}

// uncount removes c from its groups; the caller holds the lock.
func (c *conn) uncount() {
	if c.closed {
		return
	}
	c.closed = true
	c.markBusy()
	for _, in := range c.groups {
		in.open--
	}
	if own := c.gate.byAddr[c.addr]; own != nil && own.open == 0 {
		delete(c.gate.byAddr, c.addr)
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	g := c.gate
	g.mu.Lock()
	c.uncount()
	if c.evicted {
		c.evicted = false
		g.evicting--
		g.evicted.Broadcast()
	}
	g.mu.Unlock()
	return c.Conn.Close()
}

// Limit limits the connections of srv on ln: another one replaces an idle one, or is
// closed if none is idle.
func Limit(srv *http.Server, ln net.Listener, max int) net.Listener {
	g := newGate(ln, limits{all: max, descriptors: uintptr(descriptors() / 4 * 3)})
	srv.ConnContext, srv.Handler = g.connContext, g.track(srv.Handler, srv.Handler)
	return g
}

type connKey struct{}

// connContext is for http.Server.ConnContext.
func (g *gate) connContext(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// track records when connections have requests, and serves reserve connections health
// checks only.
func (g *gate) track(health, rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*conn)
		if !ok {
			http.Error(w, "unknown connection", http.StatusInternalServerError)
			return
		}
		g.mu.Lock()
		c.running++
		c.markBusy()
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if c.running--; c.running == 0 && !c.closed {
				c.markIdle()
			}
		}()
		switch {
		case isHealth(r.URL.Path):
			health.ServeHTTP(w, r)
		case c.reserve:
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many connections; try again in a moment", http.StatusServiceUnavailable)
		default:
			rest.ServeHTTP(w, r)
		}
	})
}

// addressOf returns the source of a connection: an IPv4 address or an IPv6 /64, since
// one host can use all addresses of a /64.
func addressOf(c net.Conn) netip.Prefix {
	from, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := from.Addr().Unmap().WithZone(""), 64
	if addr.Is4() {
		bits = 32
	}
	network, _ := addr.Prefix(bits)
	return network
}

// descriptorOf returns the descriptor of a connection, or 0. It was the lowest free
// number at accept, so about as many descriptors are in use.
func descriptorOf(c net.Conn) (number uintptr) {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { number = fd })
		}
	}
	return number
}
