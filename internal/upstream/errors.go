package upstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/openapi"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/process"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// fault makes an error that names the server. The words of others in it are
// plain and without secrets; the cause is not kept, since it might have some.
func (v *server) errorf(kind fault.Kind, format string, args ...any) *fault.Error {
	return fault.New(kind, "server %q %s", v.Name, sanitize.Truncate(v.redact.text(fmt.Sprintf(format, args...)), 4<<10))
}

func (s *Set) unknownServer(name string) error {
	const shown = 12
	names := s.names()
	list := strings.Join(names[:min(shown, len(names))], ", ")
	switch {
	case len(names) == 0:
		list = "none is configured"
	case len(names) > shown:
		list = fmt.Sprintf("the servers are %s and %d more", list, len(names)-shown)
	default:
		list = "the servers are " + list
	}
	return fault.New(fault.NotFound, "there is no server %.100q; %s", name, list)
}

func (v *server) shuttingDown() error {
	return v.errorf(fault.Unavailable, "is being stopped, with the daemon")
}

// cancelled is the answer to whom does not want one any more.
func (v *server) cancelled(ctx context.Context, doing string) error {
	e := v.errorf(fault.Unavailable, "was given up on while %s", doing)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e = v.errorf(fault.Exhausted, "was given up on while %s: the time for it is over", doing)
	}
	e.Cause = ctx.Err() // so that callers see that it was they
	return e
}

// unavailable is why a server that failed is not tried now. It is called under
// mu.
func (v *server) unavailable() error {
	e := fault.New(fault.KindOf(v.reason), "%s", fault.Message(v.reason))
	e.Hint = fault.Hint(v.reason)
	waitsForLogin := v.login != nil && fault.KindOf(v.reason) == fault.Denied
	if wait := time.Until(v.retryAt); wait > 0 && !waitsForLogin {
		e.Message += fmt.Sprintf("; it is tried again in %s", max(wait.Round(time.Second), time.Second))
	}
	return e
}

func (v *server) unresolvedValue(what, name string, err error) error {
	return v.errorf(fault.Invalid, "cannot be started: its %s %s has no value: %s", what, name, fault.Message(err)).WithHint("%s", fault.Hint(err))
}

// installs say where programs come from that many servers need.
var installHints = map[string]string{
	"npx":    "install Node.js, which brings it",
	"node":   "install Node.js",
	"npm":    "install Node.js, which brings it",
	"uvx":    "install uv, which brings it",
	"uv":     "install uv",
	"docker": "install Docker, or a program that can stand in for it",
	"python": "install Python 3, or use python3 as command",
	"bunx":   "install Bun, which brings it",
	"deno":   "install Deno",
}

// notStarted is why a start led to nothing.
func (v *server) startError(ctx context.Context, c *connection, err error) error {
	switch {
	case errors.Is(err, process.ErrNotFound):
		hint := installHints[strings.TrimSuffix(filepath.Base(v.Command), ".exe")]
		if hint == "" {
			hint = "install it, or give the full path of the program as command"
		}
		return v.errorf(fault.Unavailable, "cannot be started: there is no program %q", v.Command).WithHint("%s", hint)
	case errors.Is(err, fs.ErrPermission):
		return v.errorf(fault.Unavailable, "cannot be started: %q may not be executed", v.Command)
	case v.set.ctx.Err() != nil:
		return v.shuttingDown()
	case context.Cause(ctx) == errTimeout:
		return v.errorf(fault.Unavailable, "was not ready after %s%s", v.StartTimeout, v.stderrTail(c))
	case c != nil && (errors.Is(err, mcp.ErrClosed) || errors.Is(err, mcp.ErrClosedEarly)):
		return v.errorf(fault.Unavailable, "ended while it was started (%s)%s", c.child.Status(), v.stderrTail(c))
	}
	return v.transportError(err, "connecting")
}

// words are the last lines that a program wrote to stderr.
func (v *server) stderrTail(c *connection) string {
	const shown = 3
	if c == nil || c.child == nil {
		return ""
	}
	said := c.child.StderrLines()
	if len(said) == 0 {
		return ""
	}
	for i, line := range said {
		said[i] = sanitize.Truncate(line, 300)
	}
	return "; it said: " + strings.Join(said[max(0, len(said)-shown):], " | ")
}

// explain is why a connection broke.
func (v *server) disconnectError(c *connection, err error) error {
	if c.child == nil {
		return v.transportError(err, "connected")
	}
	return v.errorf(fault.Unavailable, "ended (%s)%s", c.child.Status(), v.stderrTail(c))
}

// word says what went wrong with a call.
func (v *server) callError(ctx context.Context, c *connection, doing string, err error) error {
	failure, failed := errors.AsType[*tool.Failure](err)
	own, worded := errors.AsType[*fault.Error](err)
	switch {
	case err == nil:
		return nil
	case failed:
		clean := *failure
		clean.Message, clean.Data = v.redact.text(failure.Message), v.redact.json(failure.Data)
		clean.Answer = v.redact.redactFailure(failure.Answer)
		return &clean
	case worded:
		return v.prefixName(own)
	case errors.Is(err, errTimeout):
		return v.errorf(fault.Exhausted, "gave no answer within %s while %s; it was told to stop", v.Timeout, doing)
	case ctx.Err() != nil:
		return v.cancelled(ctx, doing)
	case v.set.ctx.Err() != nil:
		return v.shuttingDown()
	case errors.Is(err, mcp.ErrClosed) && c.child != nil:
		select {
		case <-c.child.Exited():
		case <-time.After(3 * time.Second): // it only closed its streams
			return v.errorf(fault.Unavailable, "closed the connection while %s%s", doing, v.stderrTail(c))
		}
		return v.errorf(fault.Unavailable, "ended while %s (%s)%s", doing, c.child.Status(), v.stderrTail(c))
	}
	return v.responseError(err, doing)
}

// worded is an error that says all but whose it is.
func (v *server) prefixName(e *fault.Error) error {
	said := v.errorf(e.Kind, "%s", e.Message)
	said.Hint = v.redact.text(e.Hint)
	return said
}

// answered is for what a server did answer, but should not have.
func (v *server) responseError(err error, doing string) error {
	refusal, refused := errors.AsType[*mcp.ServerError](err)
	switch {
	case refused && refusal.IsMethodNotFound():
		return v.errorf(fault.NotFound, "does not know what was asked for while %s: %s", doing, refusal)
	case refused:
		return v.errorf(fault.Invalid, "refused while %s: %s", doing, refusal)
	case errors.Is(err, mcp.ErrTooLarge), errors.Is(err, openapi.ErrTooLarge):
		limit := v.set.cfg.MaxResponse
		if limit == 0 {
			limit = 32 << 20
		}
		return v.errorf(fault.Exhausted, "gave an answer of more than %d bytes while %s", limit, doing).WithHint("ask it for less at a time")
	case errors.Is(err, mcp.ErrListTooLong):
		return v.errorf(fault.Unavailable, "gave a list that does not end while %s", doing)
	case errors.Is(err, mcp.ErrMalformed):
		return v.errorf(fault.Unavailable, "gave an answer that cannot be read while %s", doing)
	case errors.Is(err, mcp.ErrInputRequired):
		return v.errorf(fault.Unavailable, "asks for input while %s, which nobody here can give", doing)
	}
	return v.transportError(err, doing)
}

// overHTTP is for what goes wrong on the way.
func (v *server) transportError(err error, doing string) error {
	status, answered := errors.AsType[*mcp.StatusError](err)
	network, isNetwork := errors.AsType[*net.OpError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	refusal, refused := errors.AsType[*mcp.ServerError](err)
	worded, isWorded := errors.AsType[*fault.Error](err)
	switch {
	case isWorded: // by who has its tokens
		return v.errorf(worded.Kind, "%s", worded.Message).WithHint("%s", v.redact.text(worded.Hint))
	case answered && (status.Code == 401 || status.Code == 403):
		return v.errorf(fault.Denied, "%s while %s", status, doing).WithHint("check the credentials in its headers")
	case answered:
		return v.errorf(fault.Unavailable, "%s while %s", status, doing)
	case isDNS:
		return v.errorf(fault.Unavailable, "cannot be found: there is no host %q", dns.Name)
	case isNetwork:
		return v.errorf(fault.Unavailable, "cannot be reached: %s", network.Err)
	case refused:
		return v.errorf(fault.Unavailable, "refused while %s: %s", doing, refusal)
	case errors.Is(err, mcp.ErrOtherHost):
		return v.errorf(fault.Denied, "sends us to another host while %s, where its credentials may not go", doing).WithHint("if that is right, write that host's URL into the configuration")
	case errors.Is(err, mcp.ErrClosed), errors.Is(err, mcp.ErrClosedEarly), errors.Is(err, mcp.ErrSessionExpired):
		return v.errorf(fault.Unavailable, "closed the connection while %s", doing)
	}
	v.set.cfg.Log.Debug("an upstream server failed", "server", v.Name, "doing", doing, "error", v.redact.text(err.Error()))
	return v.errorf(fault.Unavailable, "failed while %s: %s", doing, sanitize.Line(err.Error(), 300))
}
