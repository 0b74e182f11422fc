package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

// server is one configured server and its connection state.
type server struct {
	Server
	*messages
	set       *common
	given     Server // without defaults
	connector Connector
	tools     *notifier     // of Config.ToolsChanged; nil if it ignores changes
	slots     chan struct{} // one item for each call in flight

	ended context.Context // ends with end
	end   func()          // prevents further starts and cancels the current one

	stopped atomic.Bool // calls in flight were cancelled

	uses   int           // calls that found this server; guarded by Set.mu
	unused chan struct{} // closed when a retired server has no more uses; nil unless it is retired; guarded by Set.mu

	mu       sync.Mutex
	conn     *connection   // nil unless it is ready
	starting chan struct{} // closed at the end of a start; nil if there is none

	since    time.Time // start of the current phase
	reason   error     // why it failed; nil if it did not fail
	failures int       // consecutive failures
	retryAt  time.Time // earliest time of the next start
}

// connection is a running server.
type connection struct {
	session  Session
	protocol *mcp.Session    // nil unless it is an MCP server
	program  *programSession // nil unless it is a program

	// guarded by server.mu
	active         int  // calls in flight
	used           bool // whether there was any call
	toolsRequested bool // whether its tools were listed, or ToolsChanged was scheduled
	detached       bool // no longer in use
	idleTimer      *time.Timer
	watchdog       watchdog
}

func newServer(s *common, c Server) *server {
	given := c
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	c.ProgressTimeout = cmp.Or(c.ProgressTimeout, 5*c.Timeout)
	c.StartTimeout = cmp.Or(c.StartTimeout, time.Minute)
	c.Idle = cmp.Or(c.Idle, 5*time.Minute)
	c.Concurrency = cmp.Or(c.Concurrency, 8)
	v := &server{
		Server: c, set: s, given: given, slots: make(chan struct{}, c.Concurrency), since: time.Now(),
		messages: &messages{name: c.Name, redact: &redactor{}, limit: s.cfg.MaxResponse, log: s.cfg.Log},
	}
	v.ended, v.end = context.WithCancel(context.Background())
	h := newHost(s, c, v.messages)
	if s.cfg.ToolsChanged != nil {
		v.tools = &notifier{call: func(ctx context.Context) { s.cfg.ToolsChanged(ctx, c.Name) }, spawn: s.spawn, ended: v.isEnding}
		h.ToolsChanged = v.tools.notify
	}
	v.connector = c.Kind.Connector(h)
	return v
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
			if v.reason != nil && (tries > 0 || time.Now().Before(v.retryAt) && !hasNewLogin(v.connector)) {
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

// start connects within StartTimeout. Its error is displayable.
func (v *server) start(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, v.StartTimeout, errTimeout)
	defer cancel()
	session, err := v.connector.Open(ctx)
	if err != nil {
		if v.isEnding() {
			return nil, v.shuttingDown()
		}
		if _, isOwn := errors.AsType[*fault.Error](err); !isOwn {
			err = openError(ctx, err)
		}
		return nil, v.startError(err, v.StartTimeout)
	}
	c := &connection{session: session, protocol: protocolOf(session)}
	c.program, _ = session.(*programSession)
	if !v.set.spawn(func(context.Context) { v.watch(c) }) {
		session.Close()
		return nil, v.shuttingDown()
	}
	return c, nil
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
	if c.session.IsBroken(err) {
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
	c.session.Close()
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
		c.session.Close()
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
	reason := v.transportError(err, "connected")
	if c.program != nil {
		reason = v.errorf(fault.Unavailable, "exited (%s)%s", c.program.child.Status(), c.program.stderrTail())
	}
	hungUp := errors.Is(err, mcp.ErrClosed) || errors.Is(err, mcp.ErrSessionExpired)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.conn != nil || v.starting != nil || v.isEnding(): // outdated
	case hungUp && c.used && c.program != nil:
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
	c.session.Close()
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
	return v.tools != nil && c.protocol != nil // others report changes themselves
}

// isEnding reports whether the server is being stopped for good.
func (v *server) isEnding() bool { return v.ended.Err() != nil || v.set.isClosing() }

// shuttingDown is the error for a server that is being stopped for good.
func (v *server) shuttingDown() error {
	if !v.set.isClosing() {
		return errRetired
	}
	return v.errorf(fault.Unavailable, "is stopping together with the daemon")
}

// unavailable returns the error for a call before the next retry. The caller holds mu.
func (v *server) unavailable() error {
	e := fault.New(fault.KindOf(v.reason), "%s", fault.Message(v.reason))
	e.Hint = fault.Hint(v.reason)
	waitsForLogin := lastLogin(v.connector) != nil && fault.KindOf(v.reason) == fault.Denied
	if wait := time.Until(v.retryAt); wait > 0 && !waitsForLogin {
		e.Message += fmt.Sprintf("; the next attempt is in %s", max(wait.Round(time.Second), time.Second))
	}
	return e
}
