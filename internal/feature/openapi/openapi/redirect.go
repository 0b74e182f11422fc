package openapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// redirectError is a redirect to another host that is not followed.
type redirectError struct {
	host   string
	listed bool // the host is listed, but the method is not safe
}

func (e *redirectError) Error() string { return "redirects to " + e.host }

var errRedirectLoop = errors.New("redirect loop")

// ErrDown means that no operation of the API can be called at present. Other errors
// concern one call only.
var ErrDown = errors.New("the API cannot be reached")

// downError wraps an error as ErrDown.
type downError struct{ error }

func (d downError) Unwrap() []error { return []error{d.error, ErrDown} }

// maxRedirects bounds a chain of redirects.
const maxRedirects = 5

// checkRedirect follows redirects on the same host. Redirects to a listed host are
// followed for GET and HEAD, without credentials.
func (a *API) checkRedirect(next *http.Request, before []*http.Request) error {
	first := before[0]
	same := strings.EqualFold(next.URL.Host, first.URL.Host) && (next.URL.Scheme == first.URL.Scheme || next.URL.Scheme == "https")
	switch {
	case len(before) > maxRedirects:
		return errRedirectLoop
	case same && next.Method != first.Method && next.Response.StatusCode != http.StatusSeeOther:
		return http.ErrUseLastResponse
	case same:
		return nil
	case !a.cfg.isListedHost(next.URL.Host) || first.Method != http.MethodGet && first.Method != http.MethodHead:
		return &redirectError{next.URL.Host, a.cfg.isListedHost(next.URL.Host)}
	}
	next.Header = http.Header{"Accept": next.Header["Accept"], "User-Agent": next.Header["User-Agent"]}
	return nil
}

// sendError explains why there is no response from a URL; err may be nil. A network error of the
// API's own host is wrapped as ErrDown.
func sendError(ctx context.Context, err error, target *url.URL, otherHost bool) error {
	other, left := errors.AsType[*redirectError](err)
	dial, isDial := errors.AsType[*net.OpError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case left && other.listed:
		return fault.New(fault.Denied, "redirects to another host, %s, which is followed for GET and HEAD only",
			sanitize.Line(other.host, 100))
	case left:
		return fault.New(fault.Denied, "redirects to another host, %s, which is not followed", sanitize.Line(other.host, 100)).
			WithHint("to allow it for GET and HEAD, add the host to hosts of the server")
	case errors.Is(err, errRedirectLoop):
		return fault.New(fault.Unavailable, "has a redirect loop")
	case isDial && dial.Op == "dial":
		if host := requestHost(err, target); otherHost || !strings.EqualFold(host, target.Host) {
			return fault.New(fault.Unavailable, "has this operation at %s, which cannot be reached: %s", sanitize.Line(host, 100),
				networkReason(err))
		}
		return downError{dial}
	}
	return fault.Wrap(fault.Unavailable, err, "sent no readable response: %s", networkReason(err))
}

// requestHost returns the host that an error of an HTTP client concerns.
func requestHost(err error, target *url.URL) string {
	if whole, ok := errors.AsType[*url.Error](err); ok {
		if u, err := url.Parse(whole.URL); err == nil && u.Host != "" {
			return u.Host
		}
	}
	return target.Host
}

// networkReason describes a network error without addresses and URLs, which may contain
// secrets.
func networkReason(err error) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	whole, isURL := errors.AsType[*url.Error](err)
	switch {
	case isDNS:
		return fmt.Sprintf("host %q not found", dns.Name)
	case isOp:
		return sanitize.Line(op.Err.Error(), 200)
	case isURL:
		return sanitize.Line(whole.Err.Error(), 200)
	}
	return sanitize.Line(err.Error(), 200)
}
