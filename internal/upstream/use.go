package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

// withSession runs f with the session of a server and returns a displayable error. It
// limits the concurrency of the server. If the server has expired the session, it has
// not executed the request, and f runs once more on a new connection. If the server is
// replaced before the request was sent, f runs on the new one.
func withSession[T any](ctx context.Context, s *Set, name, doing string, starting func() (started func()),
	f func(callContext, Session) (T, error)) (T, error) {
	for {
		v, done := s.use(name)
		if v == nil {
			var none T
			return none, unknownServer(name, s.names())
		}
		answer, err := onServer(ctx, v, doing, starting, f)
		done()
		if !errors.Is(err, errRetired) {
			return answer, err
		}
	}
}

// onServer is withSession for one server. Its error is errRetired if nothing was sent, because
// the server was retired before.
func onServer[T any](ctx context.Context, v *server, doing string, starting func() (started func()),
	f func(callContext, Session) (T, error)) (T, error) {
	var none T
	select {
	case v.slots <- struct{}{}:
	case <-ctx.Done():
		return none, v.cancelled(ctx, doing)
	case <-v.set.closing:
		return none, v.shuttingDown()
	case <-v.ended.Done():
		return none, v.shuttingDown()
	}
	defer func() { <-v.slots }()
	for retry := true; ; retry = false {
		c, err := v.acquire(ctx, starting)
		if err != nil {
			return none, err
		}
		before, began := c.responses(), time.Now()
		answer, err := withTimeout(ctx, v, c, f)
		failure := callError(ctx, v, c, doing, err)
		countTimeouts(v, c, before, time.Since(began), err)
		v.release(c, err)
		if err == nil {
			return answer, nil
		}
		if !retry || !errors.Is(err, mcp.ErrSessionExpired) {
			return none, failure
		}
	}
}

// callError returns the displayable error of a call.
func callError(ctx context.Context, v *server, c *connection, doing string, err error) error {
	if err == nil {
		return nil
	}
	return v.requestError(ctx, doing, err, func() error {
		switch {
		case v.set.isClosing():
			return v.shuttingDown()
		case v.stopped.Load():
			return v.errorf(fault.Unavailable, "was removed or changed in the configuration, and stopped while %s", doing)
		case errors.Is(err, mcp.ErrClosed) && c.program != nil:
			return v.errorf(fault.Unavailable, "%s", c.program.closedWhile(doing))
		}
		return nil
	})
}

// withMCPSession is withSession for requests that only MCP servers support.
func withMCPSession[T any](ctx context.Context, s *Set, name, doing string, f func(callContext, *mcp.Session) (T, error)) (T, error) {
	return withSession(ctx, s, name, doing, nil, func(ctx callContext, on Session) (T, error) {
		session := protocolOf(on)
		if session == nil {
			var none T
			return none, fault.New(fault.NotFound, "is %s, which has tools but no resources or prompts", ctx.server.Kind.Noun())
		}
		return f(ctx, session)
	})
}

// withMCPRequest is like withMCPSession, for a request whose error describes its outcome, as that of a call does.
func withMCPRequest[T any](ctx context.Context, s *Set, ref tool.Ref, doing string, f func(callContext, *mcp.Session) (T, error)) (T,
	error) {
	var made attempts
	answer, err := withMCPSession(ctx, s, ref.Server, doing, func(ctx callContext, on *mcp.Session) (T, error) {
		answer, err := f(ctx, on)
		made.note(err)
		return answer, err
	})
	return answer, made.outcome(ref, err)
}

// attempts records the outcome of the attempts of a request.
type attempts struct {
	sent bool  // one may have reached the server
	last error // of the last one
}

func (a *attempts) note(err error) {
	a.sent = a.sent || !tool.IsNotSent(err) && !errors.Is(err, mcp.ErrSessionExpired)
	a.last = err
}

// outcome adds to the displayable error of a request whether it was sent, and the answer of the server.
func (a *attempts) outcome(ref tool.Ref, err error) error {
	switch _, failed := errors.AsType[*tool.Failure](err); {
	case err == nil, failed:
		return err
	case !a.sent:
		return &tool.NotSent{Err: err}
	case isNotKept(a.last):
		return &tool.NotKept{Err: err}
	}
	return asAnswer(ref, a.last, err)
}

// withTimeout cancels f after the server's timeout.
func withTimeout[T any](ctx context.Context, v *server, c *connection, f func(callContext, Session) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := clock.New(v.ProgressTimeout, func() { cancel(&timedOut{within: v.ProgressTimeout}) })
	defer limit.Stop()
	quiet := limit.Within(min(v.Timeout, v.ProgressTimeout), func() { cancel(&timedOut{within: v.Timeout}) })
	limit.Resume()
	var last atomic.Pointer[string]
	answer, err := f(callContext{ctx, v, limit, quiet, &last}, c.session)
	if late, ok := errors.AsType[*timedOut](context.Cause(ctx)); ok && err != nil {
		late.last = last.Load()
		err = late
	}
	return answer, err
}

// callContext is the context of a call. Its timeout is paused while a person answers a
// question, and while the answer waits for memory. It embeds a context because it is one.
type callContext struct {
	context.Context
	server *server
	limit  *clock.Clock // of the whole call
	quiet  *clock.Clock // of the time without progress
	last   *atomic.Pointer[string]
}

// remaining returns the time until the call is cancelled if nothing is heard of it.
func (d callContext) remaining() time.Duration { return min(d.limit.Remaining(), d.quiet.Remaining()) }

// keepAlive wraps report, which may be nil: each report restarts the limit of the time without progress.
func (d callContext) keepAlive(report func(done, total float64, message string)) func(done, total float64, message string) {
	return func(done, total float64, message string) {
		d.quiet.Restart(d.server.Timeout)
		d.last.Store(&message)
		if report != nil {
			report(done, total, message)
		}
	}
}

// Deadline implements context.Context. It assumes that the timeout is not paused again.
func (d callContext) Deadline() (time.Time, bool) {
	ours := time.Now().Add(d.remaining())
	if theirs, ok := d.Context.Deadline(); ok && theirs.Before(ours) {
		return theirs, true
	}
	return ours, true
}

// callWhenReady makes a call, and makes a repeatable one again when the server asks for that with 429 or
// 503 and Retry-After, as long as the wait ends within the timeout.
func callWhenReady(ctx callContext, on Session, c tool.Call) (tool.Result, error) {
	for {
		r, err := on.Call(ctx, c)
		wait := busyFor(err)
		if wait == 0 || !c.Repeatable || wait >= ctx.remaining() {
			return r, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return r, err
		}
	}
}

// busyFor returns how long a server that has too much to do asks to wait; 0 if it does not.
func busyFor(err error) time.Duration {
	code, wait := 0, time.Duration(0)
	if f, ok := errors.AsType[*tool.Failure](err); ok {
		code, wait = f.Status, f.Later
	} else if s, ok := errors.AsType[*mcp.StatusError](err); ok {
		code, wait = s.Code, s.RetryAfter
	}
	if code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable {
		return 0
	}
	return wait
}

// pauseWhileAsking wraps ask: the timeout is paused while it runs, and secrets are
// redacted in the question.
func (r *redactor) pauseWhileAsking(limit *clock.Clock, ask func(context.Context, tool.Question) (tool.Reply, error)) func(context.Context,
	tool.Question) (tool.Reply, error) {
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, q tool.Question) (tool.Reply, error) {
		limit.Pause()
		defer limit.Resume()
		return ask(ctx, tool.Question{Text: r.text(q.Text), Schema: r.json(q.Schema)})
	}
}

// pauseWhileHolding wraps hold: the timeout is paused while the answer of the server waits for memory.
func pauseWhileHolding(limit *clock.Clock, hold func(context.Context, int64) error) func(context.Context, int64) error {
	if hold == nil {
		return nil
	}
	return func(ctx context.Context, bytes int64) error {
		limit.Pause()
		defer limit.Resume()
		return hold(ctx, bytes)
	}
}

// storeWithoutSecrets wraps store: content that repeats a secret is refused, because it is
// too large to be redacted.
func (r *redactor) storeWithoutSecrets(store func(context.Context, []byte) (json.RawMessage, error)) func(context.Context,
	[]byte) (json.RawMessage, error) {
	if store == nil {
		return nil
	}
	return func(ctx context.Context, content []byte) (json.RawMessage, error) {
		for _, secret := range r.sentForms() {
			if bytes.Contains(content, []byte(secret)) {
				return nil, fault.New(fault.Exhausted, "sent an answer of %d bytes that contains one of its credentials", len(content)).
					WithHint("request less data per call")
			}
		}
		return store(ctx, content)
	}
}

// responded reports whether the server responded, possibly with an error.
func responded(err error) bool {
	_, failed := errors.AsType[*tool.Failure](err)
	_, refused := errors.AsType[*mcp.ServerError](err)
	return err == nil || failed || refused
}
