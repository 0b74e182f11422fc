package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/oauth"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/process"
)

// server is one server and what became of it.
type server struct {
	Server
	set    *Set
	slots  chan struct{} // one item for each call under way
	redact *redactor

	mu       sync.Mutex
	conn     *connection   // nil unless it is ready
	starting chan struct{} // closed at the end of a start; nil if there is none
	old      bool          // whether it answers initialize only: see mcp.Info.Legacy
	events   bool          // whether it speaks over events only
	login    *oauth.Login  // of the last connection; nil if it needs none

	since  time.Time // of the present phase
	reason error     // why it failed; nil if it did not
	fails  int       // starts in a row that led to nothing
	retry  time.Time // not tried again before
	said   []string  // the last words of its last program

	telling, more bool // whether Config.Changed is being told, and has to be again
}

// session is a connection that answers, of whatever kind.
type session interface {
	Info() Info
	Tools(ctx context.Context, server string) (tools []tool.Definition, notes []string, err error)
	Call(ctx context.Context, c tool.Call) (tool.Result, error)
	Done() <-chan struct{} // closed when it is over
	Close()
}

// connection is a server that runs.
type connection struct {
	session session
	child   *process.Child // nil unless it is a program

	// under the server's mu
	uses int  // calls under way
	used bool // whether there was any
	told bool // whether it was asked for its tools, or whoever has to ask was told so
	over bool // whether it has been let go
	idle *time.Timer

	unanswered int  // calls in a row that ended without any answer of the program
	pinging    bool // whether it is asked for a sign of life
}

func newServer(s *Set, c Server) *server {
	set := func(d *time.Duration, usual time.Duration) {
		if *d == 0 {
			*d = usual
		}
	}
	set(&c.Timeout, time.Minute)
	set(&c.StartTimeout, time.Minute)
	set(&c.Idle, 5*time.Minute)
	if c.Concurrency == 0 {
		c.Concurrency = 8
	}
	return &server{Server: c, set: s, slots: make(chan struct{}, c.Concurrency), redact: &redactor{}, old: c.Legacy, since: time.Now()}
}

// acquire returns a connection that the caller has to release. Whoever comes
// first starts the server; the others wait for the same start. starting is called
// before a wait, and what it returns after it; nil means that nobody wants to know.
func (v *server) acquire(ctx context.Context, starting func() (started func())) (*connection, error) {
	wait := func(started <-chan struct{}) error {
		if starting != nil {
			defer starting()()
		}
		select {
		case <-started:
			return nil
		case <-ctx.Done():
			return v.cancelled(ctx, "starting it")
		}
	}
	for tries := 0; ; tries++ {
		v.mu.Lock()
		if c := v.conn; c != nil {
			c.uses, c.used = c.uses+1, true
			if c.idle != nil {
				c.idle.Stop()
			}
			v.mu.Unlock()
			return c, nil
		}
		if v.starting == nil {
			if v.reason != nil && (tries > 0 || time.Now().Before(v.retry) && !v.relogged()) {
				defer v.mu.Unlock()
				return nil, v.unavailable()
			}
			if !v.begin() {
				defer v.mu.Unlock()
				return nil, v.closing()
			}
		}
		started := v.starting
		v.mu.Unlock()
		if err := wait(started); err != nil {
			return nil, err
		}
	}
}

// begin starts the server in the background. A start goes on when whoever wanted
// it has left: the next one will want it too.
func (v *server) begin() bool {
	done := make(chan struct{})
	v.starting, v.since = done, time.Now()
	ok := v.set.spawn(func() {
		c, err := v.start()
		v.mu.Lock()
		defer v.mu.Unlock()
		v.starting, v.since = nil, time.Now()
		if err == nil {
			v.conn, v.reason = c, nil
			v.rest(c)
		} else {
			v.failed(err)
		}
		close(done)
	})
	if !ok {
		v.starting = nil
	}
	return ok
}

// failed notes why, and when to try again. It is called under mu.
func (v *server) failed(err error) {
	v.fails++
	pause := v.set.cfg.Pause
	for range min(v.fails-1, 20) {
		pause = min(2*pause, 5*time.Minute)
	}
	v.reason, v.since, v.retry = err, time.Now(), time.Now().Add(pause)
	if v.set.life.Err() != nil {
		return
	}
	v.set.cfg.Log.Warn("an upstream server is not available", "server", v.Name, "reason", v.reason, "retry", pause)
}

// release gives a connection back after a call that ended with err.
func (v *server) release(c *connection, err error) {
	v.mu.Lock()
	c.uses--
	if served(err) {
		v.fails = 0
	}
	v.rest(c)
	v.mu.Unlock()
	if c.broken(err) {
		v.lose(c, err)
	}
}

// rest lets a connection that nobody uses be stopped later. It is called under
// mu.
func (v *server) rest(c *connection) {
	if c.uses > 0 || c.over || v.Idle < 0 {
		return
	}
	if c.idle == nil {
		c.idle = time.AfterFunc(v.Idle, func() { v.set.spawn(func() { v.expire(c) }) })
		return
	}
	c.idle.Reset(v.Idle)
}

// expire stops a connection that nobody has used for long.
func (v *server) expire(c *connection) {
	v.mu.Lock()
	if c.uses > 0 || !v.drop(c) {
		v.mu.Unlock()
		return
	}
	v.mu.Unlock()
	v.end(c)
}

// watch sees a connection end by itself.
func (v *server) watch(c *connection) {
	<-c.session.Done()
	v.lose(c, mcp.ErrClosed)
}

// lose lets go of a connection that broke; it is ended in the background.
func (v *server) lose(c *connection, err error) {
	v.mu.Lock()
	lost := v.drop(c)
	v.mu.Unlock()
	if !lost {
		return
	}
	bury := func() {
		v.end(c)
		v.lost(c, err)
	}
	if !v.set.spawn(bury) {
		bury()
	}
}

// lost notes why a connection broke. A program that crashed after it was used is
// started again by the next call, and an address that hung up is no failure;
// whatever broke without any use has to wait.
func (v *server) lost(c *connection, err error) {
	reason := v.explain(c, err)
	hungUp := errors.Is(err, mcp.ErrClosed) || errors.Is(err, mcp.ErrGone)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.conn != nil || v.starting != nil || v.set.life.Err() != nil: // no news any more
	case hungUp && c.used && c.child != nil:
		v.reason, v.retry, v.since = reason, time.Time{}, time.Now()
	case hungUp && c.used:
	default:
		v.failed(reason)
	}
}

// drop takes the connection out of use and tells whether that was news. It is
// called under mu.
func (v *server) drop(c *connection) bool {
	if c.over {
		return false
	}
	c.over = true
	if c.idle != nil {
		c.idle.Stop()
	}
	if v.conn == c {
		v.conn, v.since = nil, time.Now()
	}
	return true
}

// end closes a connection and stops its program.
func (v *server) end(c *connection) {
	if c.child == nil {
		c.session.Close()
		return
	}
	c.child.In.Close() // the polite goodbye comes first
	c.session.Close()
	c.child.Stop()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said = c.child.Said()
}

// stop ends the server for good: a start under way first.
func (v *server) stop() {
	v.mu.Lock()
	starting := v.starting
	v.mu.Unlock()
	if starting != nil {
		<-starting
	}
	v.mu.Lock()
	c := v.conn
	if c == nil || !v.drop(c) {
		v.mu.Unlock()
		return
	}
	v.mu.Unlock()
	v.end(c)
}

// unlisted tells, once of each connection, whether it was not asked for its tools.
func (v *server) unlisted() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.conn
	if c == nil || c.told {
		return false
	}
	c.told = true
	return v.set.cfg.Changed != nil && v.OpenAPI == nil // a document tells of itself
}

// changed passes on that the list of tools is another one: one at a time, and of
// a flood one a second.
func (v *server) changed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.more = true
	if v.telling {
		return
	}
	v.telling = v.set.spawn(func() {
		for v.hasMore() {
			v.set.cfg.Changed(v.Name)
			select {
			case <-time.After(time.Second):
			case <-v.set.life.Done():
			}
		}
	})
}

func (v *server) hasMore() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	more := v.more && v.set.life.Err() == nil
	v.more, v.telling = false, more
	return more
}
