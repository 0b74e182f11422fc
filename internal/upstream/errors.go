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

// errorf returns an error that names the server. Its text is sanitized and free of
// secrets; the cause is dropped, since it may contain secrets.
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
	if !v.set.isClosing() {
		return errRetired
	}
	return v.errorf(fault.Unavailable, "is stopping together with the daemon")
}

// cancelled is returned to a caller whose context has ended.
func (v *server) cancelled(ctx context.Context, doing string) error {
	e := v.errorf(fault.Unavailable, "was cancelled while %s", doing)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e = v.errorf(fault.Exhausted, "was cancelled while %s: the deadline has passed", doing)
	}
	e.Cause = ctx.Err() // lets callers recognize their own cancellation
	return e
}

// unavailable returns the error for a call before the next retry. The caller holds mu.
func (v *server) unavailable() error {
	e := fault.New(fault.KindOf(v.reason), "%s", fault.Message(v.reason))
	e.Hint = fault.Hint(v.reason)
	waitsForLogin := v.login != nil && fault.KindOf(v.reason) == fault.Denied
	if wait := time.Until(v.retryAt); wait > 0 && !waitsForLogin {
		e.Message += fmt.Sprintf("; the next attempt is in %s", max(wait.Round(time.Second), time.Second))
	}
	return e
}

func (v *server) unresolvedValue(what, name string, err error) error {
	return v.errorf(fault.Invalid, "cannot be started: its %s %s has no value: %s", what, name, fault.Message(err)).WithHint("%s", fault.Hint(err))
}

// installHints state how to install programs that many servers use.
var installHints = map[string]string{
	"npx":    "install Node.js, which includes it",
	"node":   "install Node.js",
	"npm":    "install Node.js, which includes it",
	"uvx":    "install uv, which includes it",
	"uv":     "install uv",
	"docker": "install Docker, or a compatible program",
	"python": "install Python 3, or set command to python3",
	"bunx":   "install Bun, which includes it",
	"deno":   "install Deno",
}

// startError returns the displayable error of a failed start.
func (v *server) startError(ctx context.Context, c *connection, err error) error {
	switch {
	case errors.Is(err, process.ErrNotFound):
		hint := installHints[strings.TrimSuffix(filepath.Base(v.Command), ".exe")]
		if hint == "" {
			hint = "install it, or set command to the full path of the program"
		}
		return v.errorf(fault.Unavailable, "cannot be started: program %q not found", v.Command).WithHint("%s", hint)
	case errors.Is(err, fs.ErrPermission):
		return v.errorf(fault.Unavailable, "cannot be started: %q is not executable", v.Command)
	case v.isEnding():
		return v.shuttingDown()
	case context.Cause(ctx) == errTimeout:
		return v.errorf(fault.Unavailable, "was not ready after %s%s", v.StartTimeout, v.stderrTail(c))
	case c != nil && (errors.Is(err, mcp.ErrClosed) || errors.Is(err, mcp.ErrClosedEarly)):
		return v.errorf(fault.Unavailable, "exited while starting (%s)%s", c.child.Status(), v.stderrTail(c))
	}
	return v.transportError(err, "connecting")
}

// stderrTail returns the last lines of stderr as the end of an error message.
func (v *server) stderrTail(c *connection) string {
	const shown = 3
	if c == nil || c.child == nil {
		return ""
	}
	lines := c.child.StderrLines()
	if len(lines) == 0 {
		return ""
	}
	for i, line := range lines {
		lines[i] = sanitize.Truncate(line, 300)
	}
	return "; stderr: " + strings.Join(lines[max(0, len(lines)-shown):], " | ")
}

// disconnectError returns the displayable reason of a broken connection.
func (v *server) disconnectError(c *connection, err error) error {
	if c.child == nil {
		return v.transportError(err, "connected")
	}
	return v.errorf(fault.Unavailable, "exited (%s)%s", c.child.Status(), v.stderrTail(c))
}

// callError returns the displayable error of a call.
func (v *server) callError(ctx context.Context, c *connection, doing string, err error) error {
	failure, failed := errors.AsType[*tool.Failure](err)
	own, isOwn := errors.AsType[*fault.Error](err)
	switch {
	case err == nil:
		return nil
	case failed:
		clean := *failure
		clean.Message, clean.Data = v.redact.text(failure.Message), v.redact.json(failure.Data)
		clean.Answer = v.redact.redactFailure(failure.Answer)
		return &clean
	case isOwn:
		return v.prefixName(own)
	case errors.Is(err, errTimeout):
		return v.errorf(fault.Exhausted, "did not respond within %s while %s; the request was cancelled", v.Timeout, doing)
	case ctx.Err() != nil:
		return v.cancelled(ctx, doing)
	case v.set.isClosing():
		return v.shuttingDown()
	case v.stopped.Load():
		return v.errorf(fault.Unavailable, "was removed or changed in the configuration, and stopped while %s", doing)
	case errors.Is(err, mcp.ErrClosed) && c.child != nil:
		select {
		case <-c.child.Exited():
		case <-time.After(3 * time.Second): // it runs, and has closed its streams
			return v.errorf(fault.Unavailable, "closed the connection while %s%s", doing, v.stderrTail(c))
		}
		return v.errorf(fault.Unavailable, "exited while %s (%s)%s", doing, c.child.Status(), v.stderrTail(c))
	}
	return v.responseError(err, doing)
}

// prefixName adds the server's name to an error of a subpackage.
func (v *server) prefixName(e *fault.Error) error {
	named := v.errorf(e.Kind, "%s", e.Message)
	named.Hint = v.redact.text(e.Hint)
	return named
}

// responseError describes an invalid or unexpected response.
func (v *server) responseError(err error, doing string) error {
	refusal, refused := errors.AsType[*mcp.ServerError](err)
	switch {
	case refused && refusal.IsMethodNotFound():
		return v.errorf(fault.NotFound, "does not support the request while %s: %s", doing, refusal)
	case refused:
		return v.errorf(fault.Invalid, "returned an error while %s: %s", doing, refusal)
	case errors.Is(err, mcp.ErrTooLarge), errors.Is(err, openapi.ErrTooLarge):
		limit := v.set.cfg.MaxResponse
		if limit == 0 {
			limit = 32 << 20
		}
		return v.errorf(fault.Exhausted, "sent a response of more than %d bytes while %s", limit, doing).WithHint("request less data per call")
	case errors.Is(err, mcp.ErrListTooLong):
		return v.errorf(fault.Unavailable, "sent a list that exceeds the page or size limit while %s", doing)
	case errors.Is(err, mcp.ErrMalformed):
		return v.errorf(fault.Unavailable, "sent a malformed response while %s", doing)
	case errors.Is(err, mcp.ErrInputRequired):
		return v.errorf(fault.Unavailable, "requested input while %s, which the caller cannot provide", doing)
	}
	return v.transportError(err, doing)
}

// transportError describes an error of the connection.
func (v *server) transportError(err error, doing string) error {
	status, answered := errors.AsType[*mcp.StatusError](err)
	network, isNetwork := errors.AsType[*net.OpError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	refusal, refused := errors.AsType[*mcp.ServerError](err)
	own, isOwn := errors.AsType[*fault.Error](err)
	switch {
	case isOwn: // of package oauth
		return v.errorf(own.Kind, "%s", own.Message).WithHint("%s", v.redact.text(own.Hint))
	case answered && (status.Code == 401 || status.Code == 403):
		return v.errorf(fault.Denied, "%s while %s", status, doing).WithHint("check the credentials in its headers")
	case answered:
		return v.errorf(fault.Unavailable, "%s while %s", status, doing)
	case isDNS:
		return v.errorf(fault.Unavailable, "cannot be reached: host %q not found", dns.Name)
	case isNetwork:
		return v.errorf(fault.Unavailable, "cannot be reached: %s", network.Err)
	case refused:
		return v.errorf(fault.Unavailable, "returned an error while %s: %s", doing, refusal)
	case errors.Is(err, mcp.ErrOtherHost):
		return v.errorf(fault.Denied, "redirected to another host while %s, and credentials are not sent there", doing).WithHint("if the redirect is correct, configure the URL of that host")
	case errors.Is(err, mcp.ErrClosed), errors.Is(err, mcp.ErrClosedEarly), errors.Is(err, mcp.ErrSessionExpired):
		return v.errorf(fault.Unavailable, "closed the connection while %s", doing)
	}
	v.set.cfg.Log.Debug("an upstream server failed", "server", v.Name, "doing", doing, "error", v.redact.text(err.Error()))
	return v.errorf(fault.Unavailable, "failed while %s: %s", doing, sanitize.Line(err.Error(), 300))
}
