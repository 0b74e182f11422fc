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
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/plain"
)

// elsewhere says that an answer leads to a host that is not ours.
type elsewhere struct{ host string }

func (e *elsewhere) Error() string { return "leads to " + e.host }

var errAround = errors.New("leads around in circles")

// mostRedirects are followed.
const mostRedirects = 5

// redirect follows what stays on the host. Another host that the operator names
// is asked for what can be read, without any credentials.
func (a *API) redirect(next *http.Request, before []*http.Request) error {
	first := before[0]
	same := strings.EqualFold(next.URL.Host, first.URL.Host) && (next.URL.Scheme == first.URL.Scheme || next.URL.Scheme == "https")
	switch {
	case len(before) > mostRedirects:
		return errAround
	case same && next.Method != first.Method && next.Response.StatusCode != http.StatusSeeOther:
		return http.ErrUseLastResponse
	case same:
		return nil
	case !a.cfg.named(next.URL.Host) || first.Method != http.MethodGet && first.Method != http.MethodHead:
		return &elsewhere{next.URL.Host}
	}
	next.Header = http.Header{"Accept": next.Header["Accept"], "User-Agent": next.Header["User-Agent"]}
	return nil
}

// unanswered says why there is no answer. Errors of the network stay as they are,
// so that callers see that nobody was reached.
func unanswered(ctx context.Context, err error) error {
	other, left := errors.AsType[*elsewhere](err)
	dial, isDial := errors.AsType[*net.OpError](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case left:
		return fault.New(fault.Denied, "sends us to another host, %s, where its credentials may not go", plain.Line(other.host, 100)).
			WithHint("if it may be asked, write it under hosts in its entry; credentials do not follow a redirect")
	case errors.Is(err, errAround):
		return fault.New(fault.Unavailable, "sends us around in circles")
	case isDial && dial.Op == "dial":
		return dial
	}
	return fault.Wrap(fault.Unavailable, err, "gave no answer that can be read: %s", network(err))
}

// network is an error of the network without addresses and URLs, which may hold
// secrets.
func network(err error) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	whole, isURL := errors.AsType[*url.Error](err)
	switch {
	case isDNS:
		return fmt.Sprintf("there is no host %q", dns.Name)
	case isOp:
		return plain.Line(op.Err.Error(), 200)
	case isURL:
		return plain.Line(whole.Err.Error(), 200)
	}
	return plain.Line(err.Error(), 200)
}
