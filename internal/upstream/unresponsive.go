package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

const (
	maxTimeouts = 2                // consecutive calls before a program is pinged
	pingTimeout = 10 * time.Second // at most; less if the call timeout is shorter
)

// watchdog counts the calls to a program that does not respond. It is guarded by server.mu.
type watchdog struct {
	timeouts int  // consecutive calls that ended without any response of the program
	pinging  bool // whether a ping is in flight
}

// responses counts the responses of an MCP server.
func (c *connection) responses() uint64 {
	if c.protocol == nil {
		return 0
	}
	return c.protocol.Responses()
}

// countTimeouts counts consecutive calls without any response of the program, and pings
// it after maxTimeouts of them. before is the number of responses when the call began.
// Calls that the caller cancelled early are not counted.
func countTimeouts(v *server, c *connection, before uint64, took time.Duration, err error) {
	if c.program == nil {
		return
	}
	unanswered := errors.Is(err, errTimeout) ||
		(errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) && took >= min(v.Timeout, pingTimeout)
	v.mu.Lock()
	defer v.mu.Unlock()
	w := &c.watchdog
	switch {
	case c.responses() != before:
		w.timeouts = 0
	case unanswered:
		w.timeouts++
	}
	if w.timeouts >= maxTimeouts && !w.pinging && !c.detached {
		w.pinging = v.set.spawn(func(ctx context.Context) { ping(ctx, v, c) })
	}
}

// ping closes the connection to a program that does not respond. The next call restarts
// it after the retry delay.
func ping(ctx context.Context, v *server, c *connection) {
	ctx, cancel := context.WithTimeout(ctx, min(v.Timeout, pingTimeout))
	defer cancel()
	alive := c.protocol.Ping(ctx)
	reason := v.errorf(fault.Unavailable, "responded to neither %d calls nor a ping, and was stopped%s", maxTimeouts,
		c.program.stderrTail())
	v.mu.Lock()
	c.watchdog = watchdog{}
	hung := !alive && !v.set.isClosing() && v.detach(c)
	if hung {
		v.recordFailure(reason) // before it is stopped, which takes seconds: prevents a start in between
	}
	v.mu.Unlock()
	if hung {
		c.session.Close()
	}
}
