package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

const (
	maxTimeouts = 2                // consecutive calls before a program is pinged
	pingTimeout = 10 * time.Second // at most; less if the call timeout is shorter
)

// responses counts the responses of an MCP server.
func (c *connection) responses() uint64 {
	if s, ok := c.session.(*mcp.Session); ok {
		return s.Responses()
	}
	return 0
}

// countTimeouts counts consecutive calls without any response of the program, and pings
// it after maxTimeouts of them. before is the number of responses when the call began.
// Calls that the caller cancelled early are not counted.
func (v *server) countTimeouts(c *connection, before uint64, took time.Duration, err error) {
	if c.child == nil {
		return
	}
	unanswered := errors.Is(err, errTimeout) ||
		(errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) && took >= min(v.Timeout, pingTimeout)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case c.responses() != before:
		c.timeouts = 0
	case unanswered:
		c.timeouts++
	}
	if c.timeouts >= maxTimeouts && !c.pinging && !c.detached {
		c.pinging = v.set.spawn(func(ctx context.Context) { v.ping(ctx, c) })
	}
}

// ping closes the connection to a program that does not respond. The next call restarts
// it after the retry delay.
func (v *server) ping(ctx context.Context, c *connection) {
	ctx, cancel := context.WithTimeout(ctx, min(v.Timeout, pingTimeout))
	defer cancel()
	alive := c.session.(*mcp.Session).Ping(ctx) // only sessions with a program are pinged
	reason := v.errorf(fault.Unavailable, "responded to neither %d calls nor a ping, and was stopped%s", maxTimeouts, v.stderrTail(c))
	v.mu.Lock()
	c.pinging, c.timeouts = false, 0
	hung := !alive && !v.set.isClosing() && v.detach(c)
	if hung {
		v.recordFailure(reason) // before it is stopped, which takes seconds: prevents a start in between
	}
	v.mu.Unlock()
	if hung {
		v.closeConnection(c)
	}
}
