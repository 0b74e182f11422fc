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

	mu              sync.Mutex
	conn            *connection   // nil unless it is ready
	starting        chan struct{} // closed at the end of a start; nil if there is none
	initializeFirst bool          // whether it answers initialize only: see mcp.Info.Legacy
	sseOnly         bool          // whether it speaks over events only
	login           *oauth.Login  // of the last connection; nil if it needs none

	since    time.Time // of the present phase
	reason   error     // why it failed; nil if it did not
	failures int       // starts in a row that led to nothing
	retryAt  time.Time // not tried again before
	stderr   []string  // the last words of its last program

	notifying, notifyAgain bool // whether Config.Changed is being told, and has to be again
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
	active         int  // calls under way
	used           bool // whether there was any
	toolsRequested bool // whether it was asked for its tools, or whoever has to ask was told so
	detached       bool // whether it has been let go
	idleTimer      *time.Timer

	timeouts int  // calls in a row that ended without any answer of the program
	pinging  bool // whether it is asked for a sign of life
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
	return &server{Server: c, set: s, slots: make(chan struct{}, c.Concurrency), redact: &redactor{}, initializeFirst: c.Legacy, since: time.Now()}
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
			c.active, c.used = c.active+1, true
			if c.idleTimer != nil {
				c.idleTimer.Stop()
			}
			v.mu.Unlock()
			return c, nil
		}
		if v.starting == nil {
			if v.reason != nil && (tries > 0 || time.Now().Before(v.retryAt) && !v.loginChanged()) {
				defer v.mu.Unlock()
				return nil, v.unavailable()
			}
			if !v.startInBackground() {
				defer v.mu.Unlock()
				return nil, v.shuttingDown()
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
func (v *server) startInBackground() bool {
	done := make(chan struct{})
	v.starting, v.since = done, time.Now()
	ok := v.set.spawn(func() {
		c, err := v.start()
		v.mu.Lock()
		defer v.mu.Unlock()
		v.starting, v.since = nil, time.Now()
		if err == nil {
			v.conn, v.reason = c, nil
			v.startIdleTimer(c)
		} else {
			v.recordFailure(err)
		}
		close(done)
	})
	if !ok {
		v.starting = nil
	}
	return ok
}

// failed notes why, and when to try again. It is called under mu.
func (v *server) recordFailure(err error) {
	v.failures++
	pause := v.set.cfg.RetryDelay
	for range min(v.failures-1, 20) {
		pause = min(2*pause, 5*time.Minute)
	}
	v.reason, v.since, v.retryAt = err, time.Now(), time.Now().Add(pause)
	if v.set.ctx.Err() != nil {
		return
	}
	v.set.cfg.Log.Warn("an upstream server is not available", "server", v.Name, "reason", v.reason, "retry", pause)
}

// release gives a connection back after a call that ended with err.
func (v *server) release(c *connection, err error) {
	v.mu.Lock()
	c.active--
	if responded(err) {
		v.failures = 0
	}
	v.startIdleTimer(c)
	v.mu.Unlock()
	if c.isBroken(err) {
		v.disconnect(c, err)
	}
}

// rest lets a connection that nobody uses be stopped later. It is called under
// mu.
func (v *server) startIdleTimer(c *connection) {
	if c.active > 0 || c.detached || v.Idle < 0 {
		return
	}
	if c.idleTimer == nil {
		c.idleTimer = time.AfterFunc(v.Idle, func() { v.set.spawn(func() { v.expire(c) }) })
		return
	}
	c.idleTimer.Reset(v.Idle)
}

// expire stops a connection that nobody has used for long.
func (v *server) expire(c *connection) {
	v.mu.Lock()
	if c.active > 0 || !v.detach(c) {
		v.mu.Unlock()
		return
	}
	v.mu.Unlock()
	v.closeConnection(c)
}

// watch sees a connection end by itself.
func (v *server) watch(c *connection) {
	<-c.session.Done()
	v.disconnect(c, mcp.ErrClosed)
}

// lose lets go of a connection that broke; it is ended in the background.
func (v *server) disconnect(c *connection, err error) {
	v.mu.Lock()
	lost := v.detach(c)
	v.mu.Unlock()
	if !lost {
		return
	}
	bury := func() {
		v.closeConnection(c)
		v.recordDisconnect(c, err)
	}
	if !v.set.spawn(bury) {
		bury()
	}
}

// lost notes why a connection broke. A program that crashed after it was used is
// started again by the next call, and an address that hung up is no failure;
// whatever broke without any use has to wait.
func (v *server) recordDisconnect(c *connection, err error) {
	reason := v.disconnectError(c, err)
	hungUp := errors.Is(err, mcp.ErrClosed) || errors.Is(err, mcp.ErrSessionExpired)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.conn != nil || v.starting != nil || v.set.ctx.Err() != nil: // no news any more
	case hungUp && c.used && c.child != nil:
		v.reason, v.retryAt, v.since = reason, time.Time{}, time.Now()
	case hungUp && c.used:
	default:
		v.recordFailure(reason)
	}
}

// drop takes the connection out of use and tells whether that was news. It is
// called under mu.
func (v *server) detach(c *connection) bool {
	if c.detached {
		return false
	}
	c.detached = true
	if c.idleTimer != nil {
		c.idleTimer.Stop()
	}
	if v.conn == c {
		v.conn, v.since = nil, time.Now()
	}
	return true
}

// end closes a connection and stops its program.
func (v *server) closeConnection(c *connection) {
	if c.child == nil {
		c.session.Close()
		return
	}
	c.child.Stdin.Close() // the polite goodbye comes first
	c.session.Close()
	c.child.Stop()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stderr = c.child.StderrLines()
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
	if c == nil || !v.detach(c) {
		v.mu.Unlock()
		return
	}
	v.mu.Unlock()
	v.closeConnection(c)
}

// unlisted tells, once of each connection, whether it was not asked for its tools.
func (v *server) markToolsRequested() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.conn
	if c == nil || c.toolsRequested {
		return false
	}
	c.toolsRequested = true
	return v.set.cfg.ToolsChanged != nil && v.OpenAPI == nil // a document tells of itself
}

// changed passes on that the list of tools is another one: one at a time, and of
// a flood one a second.
func (v *server) notifyToolsChanged() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notifyAgain = true
	if v.notifying {
		return
	}
	v.notifying = v.set.spawn(func() {
		for v.takeNotification() {
			v.set.cfg.ToolsChanged(v.Name)
			select {
			case <-time.After(time.Second):
			case <-v.set.ctx.Done():
			}
		}
	})
}

func (v *server) takeNotification() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	more := v.notifyAgain && v.set.ctx.Err() == nil
	v.notifyAgain, v.notifying = false, more
	return more
}
