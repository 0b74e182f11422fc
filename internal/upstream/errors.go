package upstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/network"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/openapi"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/process"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

var errTimeout = errors.New("call timed out")

// timedOut is the error of a call that took too long.
type timedOut struct {
	within time.Duration
	last   *string // last message of its progress; nil if it has reported none
}

func (e *timedOut) Error() string { return errTimeout.Error() }

// Is reports whether target is errTimeout.
func (e *timedOut) Is(target error) bool { return target == errTimeout }

// errorf returns an error that names the server. Its text is one line without control characters, so that
// a server cannot change how the errors of others are shown, and free of secrets; the cause is dropped,
// since it may contain secrets.
func (v *server) errorf(kind fault.Kind, format string, args ...any) *fault.Error {
	return fault.New(kind, "server %q %s", v.Name, sanitize.Line(v.redact.text(fmt.Sprintf(format, args...)), 4<<10))
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
	"python": "install Python 3 or use python3",
	"bunx":   "install Bun, which includes it",
	"deno":   "install Deno",
}

// startError returns the displayable error of a failed start.
func (v *server) startError(ctx context.Context, c *connection, err error) error {
	switch {
	case v.Dir != "" && !isDir(v.Dir):
		return v.errorf(fault.Unavailable, "cannot be started: its cwd %q is not a directory", v.Dir).WithHint("correct cwd in the entry %s of servers, or create the directory", v.Name)
	case errors.Is(err, process.ErrNotFound):
		hint := installHints[strings.TrimSuffix(filepath.Base(v.Command), ".exe")]
		if hint == "" {
			hint = "install it"
		}
		if info, err := os.Stat(v.Command); err == nil && info.Mode().IsRegular() && strings.ContainsAny(v.Command, `/\`) {
			return v.errorf(fault.Unavailable, "cannot be started: %q is not executable", v.Command).WithHint("make it executable, or correct command in the entry %s of servers", v.Name)
		}
		return v.errorf(fault.Unavailable, "cannot be started: program %q not found", v.Command).WithHint("%s, or correct command in the entry %s of servers", hint, v.Name)
	case errors.Is(err, fs.ErrPermission):
		return v.errorf(fault.Unavailable, "cannot be started: %q is not executable", v.Command).WithHint("make it executable, or correct command in the entry %s of servers", v.Name)
	case v.isEnding():
		return v.shuttingDown()
	case context.Cause(ctx) == errTimeout:
		return v.errorf(fault.Unavailable, "was not ready after %s%s", v.StartTimeout, v.stderrTail(c))
	case c != nil && (errors.Is(err, mcp.ErrClosed) || errors.Is(err, mcp.ErrClosedEarly)):
		return v.errorf(fault.Unavailable, "exited while starting (%s)%s", c.child.Status(), v.stderrTail(c))
	}
	return v.transportError(err, "connecting")
}

// lastProgress returns the last message of the progress as the end of an error message.
func (e *timedOut) lastProgress() string {
	switch {
	case e.last == nil:
		return ""
	case *e.last == "":
		return "; it had reported progress"
	}
	return fmt.Sprintf("; its last progress was %.200q", *e.last)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
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
	timeout, late := errors.AsType[*timedOut](err)
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
	case late:
		return v.errorf(fault.Exhausted, "did not respond within %s while %s%s", timeout.within, doing, timeout.lastProgress())
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

// asAnswer adds to the displayable error of a call what the server has answered in HTTP or in the
// protocol. err is the error of the session.
func asAnswer(ref tool.Ref, err, displayed error) error {
	f := tool.Failure{Ref: ref, Message: fault.Message(displayed), Cause: displayed}
	if hint := fault.Hint(displayed); hint != "" {
		f.Message += ": " + hint
	}
	status, answered := errors.AsType[*mcp.StatusError](err)
	refusal, refused := errors.AsType[*mcp.ServerError](err)
	switch {
	case answered:
		f.Status, f.Later = status.Code, status.RetryAfter
		f.Unknown, f.Retryable = network.MayHaveEffect(status.Code), status.Code == http.StatusTooManyRequests
	case refused:
		f.Unknown = refusal.MayHaveEffect()
	default:
		return displayed
	}
	return &f
}

// isNotKept reports whether err is that of a call whose answer has arrived and cannot be kept.
func isNotKept(err error) bool {
	_, refused := errors.AsType[*tool.NotKept](err)
	return refused || errors.Is(err, mcp.ErrTooLarge)
}

// prefixName adds the server's name to an error of a subpackage.
func (v *server) prefixName(e *fault.Error) error {
	named := v.errorf(e.Kind, "%s", e.Message)
	named.Hint = sanitize.Line(v.redact.text(e.Hint), 4<<10)
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
		return v.prefixName(own)
	case answered && (status.Code == 401 || status.Code == 403):
		return v.errorf(fault.Denied, "%s while %s", status, doing).WithHint("check the credentials in the configuration of server %s", v.Name)
	case answered && status.RetryAfter > 0:
		return v.errorf(fault.Unavailable, "%s while %s; it asks to wait %d s", status, doing, int(status.RetryAfter.Seconds()))
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
	case errors.Is(err, mcp.ErrSessionExpired):
		return v.errorf(fault.Unavailable, "does not know the session that it has just begun, while %s", doing)
	case errors.Is(err, mcp.ErrClosed), errors.Is(err, mcp.ErrClosedEarly):
		return v.errorf(fault.Unavailable, "closed the connection while %s", doing)
	}
	v.set.cfg.Log.Debug("an upstream server failed", "server", v.Name, "doing", doing, "error", v.redact.text(err.Error()))
	return v.errorf(fault.Unavailable, "failed while %s: %s", doing, sanitize.Line(err.Error(), 300))
}
