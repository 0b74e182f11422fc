package httpserver

import (
	"container/list"
	"context"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// gate is a listener that bounds the connections it has accepted and not closed:
// of one address, of all, and in descriptors of the process. It never leaves a
// connection waiting. Where one is too many, the connection takes the place of the
// one that has been without a request longest, so that idle connections exclude
// nobody. Where all have a request, it may only ask for health.
type gate struct {
	net.Listener
	limits limits

	mu      sync.Mutex
	all     group
	reserve group // of connections that may only ask for health
	byAddr  map[netip.Prefix]*group
	leaving int        // evicted connections that still have their descriptor
	left    *sync.Cond // that there are fewer

	scarce int       // connections when descriptors were short: there will be no more
	until  time.Time // for so long
}

// scarceFor is how long after a shortage the number of connections does not grow.
const scarceFor = 10 * time.Second

// mostLeaving bounds how many descriptors evicted connections have until their
// goroutines notice, which takes a moment.
const mostLeaving = 16

// limits of a gate; zero is none.
type limits struct {
	all, address int
	health       int     // connections beyond all that may ask for health
	descriptors  uintptr // the first number that only health checks may have
}

// group is a number of open connections and those of them without a request,
// longest first.
type group struct {
	open    int
	resting list.List // of *conn
}

// conn is a connection that a gate has accepted.
type conn struct {
	net.Conn
	gate    *gate
	reserve bool
	groups  []*group        // that it counts in
	resting []*list.Element // in groups; nil while it has a request
	addr    netip.Prefix
	closed  bool
	evicted bool // and not yet closed by its goroutine
}

func newGate(ln net.Listener, l limits) *gate {
	g := &gate{Listener: ln, limits: l, byAddr: map[netip.Prefix]*group{}}
	g.left = sync.NewCond(&g.mu)
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

// admit counts a connection and makes room for it; nil if there is none.
func (g *gate) admit(raw net.Conn) *conn {
	c := &conn{Conn: raw, gate: g, addr: addressOf(raw)}
	number := descriptorOf(raw)
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.leaving >= mostLeaving {
		g.left.Wait()
	}
	own := g.byAddr[c.addr]
	if own == nil {
		own = &group{}
	}
	room := (g.limits.address == 0 || own.open < g.limits.address || g.evict(own)) &&
		(g.all.open < g.most(number) || g.evict(&g.all))
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
	c.rest()
	return c
}

// most is how many connections there may be, seen that one has a descriptor of this
// number. One that is evicted leaves a low number to the next, so that a number alone
// does not tell of a shortage once it has begun.
func (g *gate) most(number uintptr) int {
	most, now := g.limits.all, time.Now()
	if most == 0 {
		most = math.MaxInt
	}
	if g.limits.descriptors > 0 && number >= g.limits.descriptors {
		g.scarce, g.until = g.all.open, now.Add(scarceFor)
	}
	if now.Before(g.until) {
		most = min(most, g.scarce)
	}
	return most
}

// evict closes the connection of a group that has been without a request longest,
// if there is one.
func (g *gate) evict(from *group) bool {
	first := from.resting.Front()
	if first == nil {
		return false
	}
	c := first.Value.(*conn)
	c.forget()
	c.evicted = true
	g.leaving++
	_ = c.Conn.Close()
	return true
}

// rest notes that c has no request; the caller holds the lock.
func (c *conn) rest() {
	for _, in := range c.groups {
		c.resting = append(c.resting, in.resting.PushBack(c))
	}
}

// wake notes that c has a request; the caller holds the lock.
func (c *conn) wake() {
	for i, at := range c.resting {
		c.groups[i].resting.Remove(at)
	}
	c.resting = nil
}

// forget stops counting c; the caller holds the lock.
func (c *conn) forget() {
	if c.closed {
		return
	}
	c.closed = true
	c.wake()
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
	c.forget()
	if c.evicted {
		c.evicted = false
		g.leaving--
		g.left.Broadcast()
	}
	g.mu.Unlock()
	return c.Conn.Close()
}

// Limit bounds the connections that srv has of ln: one more takes the place of one
// without a request, and is closed if there is none.
func Limit(srv *http.Server, ln net.Listener, most int) net.Listener {
	g := newGate(ln, limits{all: most, descriptors: uintptr(descriptors() / 4 * 3)})
	srv.ConnContext, srv.Handler = g.with, g.during(srv.Handler, srv.Handler)
	return g
}

type connKey struct{}

// with is for http.Server.ConnContext.
func (g *gate) with(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// during notes when connections have requests, and lets those of the reserve ask for
// nothing but health.
func (g *gate) during(health, rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*conn)
		if !ok {
			http.Error(w, "unknown connection", http.StatusInternalServerError)
			return
		}
		g.mu.Lock()
		c.wake()
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if !c.closed {
				c.rest()
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

// addressOf is where a connection comes from: an IPv4 address, or the network of an
// IPv6 one, of which a single host has all addresses.
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

// descriptorOf is the number of a connection's descriptor, the lowest that was free
// when it was accepted: so many are in use. It is 0 if c has none.
func descriptorOf(c net.Conn) (number uintptr) {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { number = fd })
		}
	}
	return number
}
