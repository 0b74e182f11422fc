package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
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

// messages describes the errors of one server, for people and models.
type messages struct {
	name   string // of the server
	redact *redactor
	limit  int // Config.MaxResponse
	log    *slog.Logger
}

// errorf returns an error that names the server. Its text is one line without control characters, so that
// a server cannot change how the errors of others are shown, and free of secrets; the cause is dropped,
// since it may contain secrets.
func (m *messages) errorf(kind fault.Kind, format string, args ...any) *fault.Error {
	return fault.New(kind, "server %q %s", m.name, sanitize.Line(m.redact.text(fmt.Sprintf(format, args...)), 4<<10))
}

// unknownServer returns the error for a server that is not among names.
func unknownServer(name string, names []string) error {
	const shown = 12
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

// cancelled is returned to a caller whose context has ended.
func (m *messages) cancelled(ctx context.Context, doing string) error {
	e := m.errorf(fault.Unavailable, "was cancelled while %s", doing)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e = m.errorf(fault.Exhausted, "was cancelled while %s: the deadline has passed", doing)
	}
	e.Cause = ctx.Err() // lets callers recognize their own cancellation
	return e
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

// startError returns the displayable error of a start that may last for a time.
func (m *messages) startError(err error, within time.Duration) error {
	if errors.Is(err, errTimeout) {
		return m.errorf(fault.Unavailable, "was not ready after %s", within)
	}
	return m.transportError(err, "connecting")
}

// openError returns the error with which a session of an MCP server could not be opened. The end of
// the StartTimeout explains all others.
func openError(ctx context.Context, err error) error {
	if context.Cause(ctx) == errTimeout {
		return errTimeout
	}
	return err
}

// requestError returns the displayable error of a request. ended returns the reason why the connection
// was closed by this program, or of a program that exited, and nil otherwise.
func (m *messages) requestError(ctx context.Context, doing string, err error, ended func() error) error {
	failure, failed := errors.AsType[*tool.Failure](err)
	own, isOwn := errors.AsType[*fault.Error](err)
	timeout, late := errors.AsType[*timedOut](err)
	switch {
	case err == nil:
		return nil
	case failed:
		clean := *failure
		clean.Message, clean.Data = m.redact.text(failure.Message), m.redact.json(failure.Data)
		clean.Answer = m.redact.redactFailure(failure.Answer)
		return &clean
	case isOwn:
		return m.prefixName(own)
	case late:
		return m.errorf(fault.Exhausted, "did not respond within %s while %s%s", timeout.within, doing, timeout.lastProgress())
	case ctx.Err() != nil:
		return m.cancelled(ctx, doing)
	}
	if e := ended(); e != nil {
		return e
	}
	return m.responseError(err, doing)
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
		f.Unknown, f.Retryable = MayHaveEffect(status.Code), status.Code == http.StatusTooManyRequests
	case refused:
		f.Unknown = refusal.MayHaveEffect()
	default:
		return displayed
	}
	return &f
}

// MayHaveEffect reports whether a request with this response may have taken effect, although the
// response is no success: an error of the server or of a proxy, or a redirect, which may follow
// the effect.
func MayHaveEffect(status int) bool {
	const clientClosed = 499 // of nginx
	return status < 400 || status >= 500 || status == http.StatusRequestTimeout || status == clientClosed
}

// isNotKept reports whether err is that of a call whose answer has arrived and cannot be kept.
func isNotKept(err error) bool {
	_, refused := errors.AsType[*tool.NotKept](err)
	return refused || errors.Is(err, mcp.ErrTooLarge)
}

// prefixName adds the server's name to an error of a subpackage.
func (m *messages) prefixName(e *fault.Error) error {
	named := m.errorf(e.Kind, "%s", e.Message)
	named.Hint = sanitize.Line(m.redact.text(e.Hint), 4<<10)
	return named
}

// responseError describes an invalid or unexpected response.
func (m *messages) responseError(err error, doing string) error {
	refusal, refused := errors.AsType[*mcp.ServerError](err)
	switch {
	case refused && refusal.IsMethodNotFound():
		return m.errorf(fault.NotFound, "does not support the request while %s: %s", doing, refusal)
	case refused:
		return m.errorf(fault.Invalid, "returned an error while %s: %s", doing, refusal)
	case errors.Is(err, mcp.ErrTooLarge), errors.Is(err, ErrTooLarge):
		return m.errorf(fault.Exhausted, "sent a response of more than %d bytes while %s", cmp.Or(m.limit, 32<<20), doing).
			WithHint("request less data per call")
	case errors.Is(err, mcp.ErrListTooLong):
		return m.errorf(fault.Unavailable, "sent a list that exceeds the page or size limit while %s", doing)
	case errors.Is(err, mcp.ErrMalformed):
		return m.errorf(fault.Unavailable, "sent a malformed response while %s", doing)
	case errors.Is(err, mcp.ErrInputRequired):
		return m.errorf(fault.Unavailable, "requested input while %s, which the caller cannot provide", doing)
	}
	return m.transportError(err, doing)
}

// transportError describes an error of the connection.
func (m *messages) transportError(err error, doing string) error {
	status, answered := errors.AsType[*mcp.StatusError](err)
	network, isNetwork := errors.AsType[*net.OpError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	refusal, refused := errors.AsType[*mcp.ServerError](err)
	own, isOwn := errors.AsType[*fault.Error](err)
	switch {
	case isOwn: // of an Authorization, or of a Kind
		return m.prefixName(own)
	case answered && (status.Code == 401 || status.Code == 403):
		return m.errorf(fault.Denied, "%s while %s", status, doing).
			WithHint("check the credentials in the configuration of server %s", m.name)
	case answered && status.RetryAfter > 0:
		return m.errorf(fault.Unavailable, "%s while %s; it asks to wait %d s", status, doing, int(status.RetryAfter.Seconds()))
	case answered:
		return m.errorf(fault.Unavailable, "%s while %s", status, doing)
	case isDNS:
		return m.errorf(fault.Unavailable, "cannot be reached: host %q not found", dns.Name)
	case isNetwork:
		return m.errorf(fault.Unavailable, "cannot be reached: %s", network.Err)
	case refused:
		return m.errorf(fault.Unavailable, "returned an error while %s: %s", doing, refusal)
	case errors.Is(err, mcp.ErrOtherHost):
		return m.errorf(fault.Denied, "redirected to another host while %s, and credentials are not sent there", doing).
			WithHint("if the redirect is correct, configure the URL of that host")
	case errors.Is(err, mcp.ErrSessionExpired):
		return m.errorf(fault.Unavailable, "does not know the session that it has just begun, while %s", doing)
	case errors.Is(err, mcp.ErrClosed), errors.Is(err, mcp.ErrClosedEarly):
		return m.errorf(fault.Unavailable, "closed the connection while %s", doing)
	}
	m.log.Debug("an upstream server failed", "server", m.name, "doing", doing, "error", m.redact.text(err.Error()))
	return m.errorf(fault.Unavailable, "failed while %s: %s", doing, sanitize.Line(err.Error(), 300))
}
