package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

const (
	maxTimeouts = 2                // calls in a row, before a program is pinged
	pingTimeout = 10 * time.Second // at most; less if a call has less
)

// answers counts what a program has answered.
func (c *connection) responses() uint64 {
	if s, ok := c.session.(*mcp.Session); ok {
		return s.Responses()
	}
	return 0
}

// heed looks at a call that ended with err after a time: a program that let several
// calls in a row end without any answer is pinged. before is what it had answered
// when the call began. A call that its caller gave up early says nothing.
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
		c.pinging = v.set.spawn(func() { v.ping(c) })
	}
}

// ping ends the connection to a program that does not answer. The next call starts
// it again, after the pause of one that failed.
func (v *server) ping(c *connection) {
	ctx, cancel := context.WithTimeout(v.set.ctx, min(v.Timeout, pingTimeout))
	defer cancel()
	alive := c.session.(*mcp.Session).Ping(ctx) // only sessions with a program are pinged
	reason := v.errorf(fault.Unavailable, "answered neither %d calls nor a ping, and was stopped%s", maxTimeouts, v.stderrTail(c))
	v.mu.Lock()
	c.pinging, c.timeouts = false, 0
	hung := !alive && v.set.ctx.Err() == nil && v.detach(c)
	if hung {
		v.recordFailure(reason) // before it is ended, which takes seconds: nothing starts meanwhile
	}
	v.mu.Unlock()
	if hung {
		v.closeConnection(c)
	}
}
