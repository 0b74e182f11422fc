package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

const (
	mostUnanswered = 2                // calls in a row, before a program is pinged
	pingTime       = 10 * time.Second // at most; less if a call has less
)

// answers counts what a program has answered.
func (c *connection) answers() uint64 {
	if s, ok := c.session.(*mcp.Session); ok {
		return s.Answers()
	}
	return 0
}

// heed looks at a call that ended with err after a time: a program that let several
// calls in a row end without any answer is pinged. before is what it had answered
// when the call began. A call that its caller gave up early says nothing.
func (v *server) heed(c *connection, before uint64, took time.Duration, err error) {
	if c.child == nil {
		return
	}
	unanswered := errors.Is(err, errTimeout) ||
		(errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) && took >= min(v.Timeout, pingTime)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case c.answers() != before:
		c.unanswered = 0
	case unanswered:
		c.unanswered++
	}
	if c.unanswered >= mostUnanswered && !c.pinging && !c.over {
		c.pinging = v.set.spawn(func() { v.ping(c) })
	}
}

// ping ends the connection to a program that does not answer. The next call starts
// it again, after the pause of one that failed.
func (v *server) ping(c *connection) {
	ctx, cancel := context.WithTimeout(v.set.life, min(v.Timeout, pingTime))
	defer cancel()
	alive := c.session.(*mcp.Session).Ping(ctx) // only sessions with a program are pinged
	reason := v.fault(fault.Unavailable, "answered neither %d calls nor a ping, and was stopped%s", mostUnanswered, v.words(c))
	v.mu.Lock()
	c.pinging, c.unanswered = false, 0
	hung := !alive && v.set.life.Err() == nil && v.drop(c)
	if hung {
		v.failed(reason) // before it is ended, which takes seconds: nothing starts meanwhile
	}
	v.mu.Unlock()
	if hung {
		v.end(c)
	}
}
