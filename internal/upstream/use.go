package upstream

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/oauth"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/openapi"
)

// use does something with the session of a server, one of so many at a time, and
// words what went wrong. Where the server has forgotten the connection, it has
// done nothing, and is asked again on a new one.
func withSession[T any](ctx context.Context, s *Set, name, doing string, starting func() (started func()), f func(callContext, session) (T, error)) (T, error) {
	var none T
	v := s.servers[name]
	if v == nil {
		return none, s.unknownServer(name)
	}
	select {
	case v.slots <- struct{}{}:
	case <-ctx.Done():
		return none, v.cancelled(ctx, doing)
	case <-s.ctx.Done():
		return none, v.shuttingDown()
	}
	defer func() { <-v.slots }()
	for again := true; ; again = false {
		c, err := v.acquire(ctx, starting)
		if err != nil {
			return none, err
		}
		before, began := c.responses(), time.Now()
		answer, err := withTimeout(ctx, v, c, f)
		failure := v.callError(ctx, c, doing, err)
		v.countTimeouts(c, before, time.Since(began), err)
		v.release(c, err)
		if err == nil {
			return answer, nil
		}
		if !again || !errors.Is(err, mcp.ErrSessionExpired) {
			return none, failure
		}
	}
}

// speak does something that only servers of MCP know of.
func withMCPSession[T any](ctx context.Context, s *Set, name, doing string, f func(context.Context, *mcp.Session) (T, error)) (T, error) {
	return withSession(ctx, s, name, doing, nil, func(ctx callContext, on session) (T, error) {
		spoken, ok := on.(*mcp.Session)
		if !ok {
			var none T
			return none, fault.New(fault.NotFound, "is an OpenAPI document: it has tools, and no resources or prompts")
		}
		return f(ctx, spoken)
	})
}

// limited ends f after the server's timeout.
func withTimeout[T any](ctx context.Context, v *server, c *connection, f func(callContext, session) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := clock.New(v.Timeout, func() { cancel(errTimeout) })
	defer limit.Stop()
	limit.Resume()
	answer, err := f(callContext{ctx, limit}, c.session)
	if err != nil && context.Cause(ctx) == errTimeout {
		err = errTimeout
	}
	return answer, err
}

// during is the context of a call whose time stands still while a person is
// asked.
type callContext struct {
	context.Context
	limit *clock.Clock
}

// Deadline implements context.Context: when the time is over if nobody is asked.
func (d callContext) Deadline() (time.Time, bool) {
	ours := time.Now().Add(d.limit.Remaining())
	if theirs, ok := d.Context.Deadline(); ok && theirs.Before(ours) {
		return theirs, true
	}
	return ours, true
}

// asking lets time stand still while a person is asked, who sees no secrets.
func (v *server) pauseWhileAsking(limit *clock.Clock, ask func(context.Context, tool.Question) (tool.Reply, error)) func(context.Context, tool.Question) (tool.Reply, error) {
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, q tool.Question) (tool.Reply, error) {
		limit.Pause()
		defer limit.Resume()
		return ask(ctx, tool.Question{Text: v.redact.text(q.Text), Schema: v.redact.json(q.Schema)})
	}
}

var errTimeout = errors.New("the call took too long")

// broken tells of an error whether the connection is of no use after it. That of an
// API is of use until nothing of the API can be called.
func (c *connection) isBroken(err error) bool {
	if _, described := c.session.(apiSession); described {
		return errors.Is(err, openapi.ErrDown)
	}
	if errors.Is(err, mcp.ErrClosed) || errors.Is(err, mcp.ErrSessionExpired) || errors.Is(err, mcp.ErrOtherHost) {
		return true
	}
	network, down := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	status, answered := errors.AsType[*mcp.StatusError](err)
	return down && network.Op == "dial" || name || answered && (status.Code == 401 || status.Code == 403) ||
		fault.KindOf(err) == fault.Denied && !errors.Is(err, oauth.ErrInsufficientScope)
}

// served tells of an error whether the server answered all the same.
func responded(err error) bool {
	_, failed := errors.AsType[*tool.Failure](err)
	_, refused := errors.AsType[*mcp.ServerError](err)
	return err == nil || failed || refused
}
