package upstream

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/oauth"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/process"
)

// server is one configured server and its connection state.
type server struct {
	Server
	set    *Set
	given  Server        // without defaults
	slots  chan struct{} // one item for each call in flight
	redact *redactor

	ended context.Context // ends with end
	end   func()          // prevents further starts and cancels the current one

	stopped atomic.Bool // calls in flight were cancelled

	uses   int           // calls that found this server; guarded by Set.mu
	unused chan struct{} // closed when a retired server has no more uses; nil unless it is retired; guarded by Set.mu

	mu              sync.Mutex
	conn            *connection   // nil unless it is ready
	starting        chan struct{} // closed at the end of a start; nil if there is none
	initializeFirst bool          // send initialize first: see mcp.Info.Legacy
	sseOnly         bool          // supports only the SSE transport of 2024-11-05
	login           *oauth.Login  // of the last connection; nil if it uses none

	since    time.Time // start of the current phase
	reason   error     // why it failed; nil if it did not fail
	failures int       // consecutive failures
	retryAt  time.Time // earliest time of the next start
	stderr   []string  // last stderr lines of its last program

	notifying, notifyAgain bool // whether Config.ToolsChanged is running, and whether to run it again
}

// session is an open connection to an MCP server or an API.
type session interface {
	Info() Info
	Tools(ctx context.Context, server string) (tools []tool.Definition, notes []string, err error)
	Call(ctx context.Context, c tool.Call) (tool.Result, error)
	Done() <-chan struct{} // closed when the connection is broken or closed
	Close()
}

// connection is a running server.
type connection struct {
	session session
	child   *process.Child // nil unless the server is a program
	local   io.Closer      // nil unless the server is in this process

	// guarded by server.mu
	active         int  // calls in flight
	used           bool // whether there was any call
	toolsRequested bool // whether its tools were listed, or ToolsChanged was scheduled
	detached       bool // no longer in use
	idleTimer      *time.Timer

	timeouts int  // consecutive calls that ended without any response of the program
	pinging  bool // whether a ping is in flight
}

func newServer(s *Set, c Server) *server {
	given := c
	set := func(d *time.Duration, usual time.Duration) {
		if *d == 0 {
			*d = usual
		}
	}
	set(&c.Timeout, time.Minute)
	set(&c.ProgressTimeout, 5*c.Timeout)
	set(&c.StartTimeout, time.Minute)
	set(&c.Idle, 5*time.Minute)
	if c.Concurrency == 0 {
		c.Concurrency = 8
	}
	ended, end := context.WithCancel(context.Background())
	return &server{Server: c, set: s, given: given, ended: ended, end: end, slots: make(chan struct{}, c.Concurrency), redact: &redactor{}, initializeFirst: c.Legacy, since: time.Now()}
}

// acquire returns a connection, which the caller must release. The first caller starts
// the server; later callers wait for the same start. starting, unless nil, is called
// before the wait, and the function it returns after the wait.
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
			if v.isEnding() {
				defer v.mu.Unlock()
				return nil, v.shuttingDown()
			}
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

// startInBackground starts the server. The start continues if its caller is cancelled,
// because the next call needs the server too.
func (v *server) startInBackground() bool {
	if v.isEnding() {
		return false
	}
	done := make(chan struct{})
	v.starting, v.since = done, time.Now()
	ok := v.set.spawn(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(v.ended, cancel)()
		c, err := v.start(ctx)
		v.notifyStarted(err)
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

// recordFailure sets the reason and the time of the next retry. The caller holds mu.
func (v *server) recordFailure(err error) {
	v.failures++
	pause := v.set.cfg.RetryDelay
	for range min(v.failures-1, 20) {
		pause = min(2*pause, 5*time.Minute)
	}
	v.reason, v.since, v.retryAt = err, time.Now(), time.Now().Add(pause)
	if v.isEnding() {
		return
	}
	v.set.cfg.Log.Warn("an upstream server is not available", "server", v.Name, "reason", v.reason, "retry", pause)
}

// release returns a connection after a call that ended with err.
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

// startIdleTimer schedules an unused connection to be closed. The caller holds mu.
func (v *server) startIdleTimer(c *connection) {
	if c.active > 0 || c.detached || v.Idle < 0 {
		return
	}
	if c.idleTimer == nil {
		c.idleTimer = time.AfterFunc(v.Idle, func() { v.set.spawn(func(context.Context) { v.expire(c) }) })
		return
	}
	c.idleTimer.Reset(v.Idle)
}

// expire closes a connection whose idle timer has fired.
func (v *server) expire(c *connection) {
	v.mu.Lock()
	if c.active > 0 || !v.detach(c) {
		v.mu.Unlock()
		return
	}
	v.mu.Unlock()
	v.closeConnection(c)
}

// watch waits for the connection to end and disconnects it.
func (v *server) watch(c *connection) {
	<-c.session.Done()
	v.disconnect(c, mcp.ErrClosed)
}

// disconnect detaches a broken connection and closes it in the background.
func (v *server) disconnect(c *connection, err error) {
	v.mu.Lock()
	lost := v.detach(c)
	v.mu.Unlock()
	if !lost {
		return
	}
	finish := func(context.Context) {
		v.closeConnection(c)
		v.recordDisconnect(c, err)
	}
	if !v.set.spawn(finish) {
		finish(context.Background())
	}
}

// recordDisconnect records why a connection broke. A program that crashed after it was
// used is restarted by the next call, and a remote hang-up after use is not a failure. A
// connection that broke before any use is retried only after a delay.
func (v *server) recordDisconnect(c *connection, err error) {
	reason := v.disconnectError(c, err)
	hungUp := errors.Is(err, mcp.ErrClosed) || errors.Is(err, mcp.ErrSessionExpired)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.conn != nil || v.starting != nil || v.isEnding(): // outdated
	case hungUp && c.used && c.child != nil:
		v.reason, v.retryAt, v.since = reason, time.Time{}, time.Now()
		v.notifyStarted(reason) // before the next start
	case hungUp && c.used:
	default:
		v.recordFailure(reason)
		v.notifyStarted(reason)
	}
}

// notifyStarted calls Config.Started, unless the server is being stopped.
func (v *server) notifyStarted(err error) {
	if v.set.cfg.Started != nil && !v.isEnding() {
		v.set.cfg.Started(v.Server, err)
	}
}

// detach takes the connection out of use and reports whether it was in use. The caller
// holds mu.
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

// closeConnection closes a connection and stops its program.
func (v *server) closeConnection(c *connection) {
	if c.child == nil {
		c.session.Close()
		if c.local != nil {
			_ = c.local.Close()
		}
		return
	}
	c.child.Stdin.Close() // lets the program exit by itself
	c.session.Close()
	c.child.Stop()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stderr = c.child.StderrLines()
}

// stop shuts the server down for good, after a start in progress.
func (v *server) stop() {
	v.end()
	v.stopped.Store(true)
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

// markToolsRequested reports whether the tools of the current connection were not
// requested yet. It returns true at most once for each connection.
func (v *server) markToolsRequested() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.conn
	if c == nil || c.toolsRequested {
		return false
	}
	c.toolsRequested = true
	return v.set.cfg.ToolsChanged != nil && v.OpenAPI == nil && v.Network == nil // an API reports changes of its document itself
}

// notifyToolsChanged calls Config.ToolsChanged in the background: one call at a time, at
// most one per second.
func (v *server) notifyToolsChanged() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notifyAgain = true
	if v.notifying {
		return
	}
	v.notifying = v.set.spawn(func(ctx context.Context) {
		for v.takeNotification() {
			v.set.cfg.ToolsChanged(ctx, v.Name)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	})
}

func (v *server) takeNotification() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	more := v.notifyAgain && !v.isEnding()
	v.notifyAgain, v.notifying = false, more
	return more
}
