package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

const (
	requestTimeout = 10 * time.Second // for one answer of an authorization server
	maxResponse    = 1 << 20          // bytes of it
)

// client sends what goes to authorization servers. A redirect is followed on the
// same host, and never with a secret.
var httpClient = &http.Client{Timeout: requestTimeout, CheckRedirect: func(next *http.Request, before []*http.Request) error {
	first := before[0]
	if first.Method != http.MethodGet || len(before) > 3 || next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host {
		return errRedirect
	}
	return nil
}}

var (
	errRedirect  = errors.New("it redirects to another place")
	errMalformed = errors.New("its answer cannot be read")
)

// status is an answer of HTTP that is none of the protocol.
type httpStatus int

func (s httpStatus) Error() string {
	return fmt.Sprintf("it answered %d %s", int(s), http.StatusText(int(s)))
}

// fetch reads a JSON object.
func fetchJSON(ctx context.Context, from string, to any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return errMalformed
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	return doJSON(req, to)
}

// exchange sends a request whose answer is a JSON object.
func doJSON(req *http.Request, to any) error {
	res, err := httpClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return err
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return responseError(res.StatusCode, body)
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind != "application/json" && !strings.HasSuffix(kind, "+json") || json.Unmarshal(body, to) != nil {
		return errMalformed
	}
	return nil
}

// refusal is an error as authorization servers write it.
type oauthError struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

func (r *oauthError) Error() string {
	if r.Description == "" {
		return "it refuses: " + sanitize.Line(r.Code, 100)
	}
	return fmt.Sprintf("it refuses: %s (%s)", sanitize.Line(r.Code, 100), sanitize.Line(r.Description, 200))
}

func responseError(code int, body []byte) error {
	r := &oauthError{}
	if json.Unmarshal(body, r) == nil && r.Code != "" {
		return r
	}
	return httpStatus(code)
}

// absent tells of an error whether nothing of the kind is at an address.
func isAbsent(err error) bool {
	_, answered := errors.AsType[httpStatus](err)
	_, refuses := errors.AsType[*oauthError](err)
	return answered || refuses || errors.Is(err, errMalformed)
}

// why is an error of the network or of an answer as the end of a sentence.
func reason(err error) string {
	network, isNetwork := errors.AsType[*net.OpError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	code, isStatus := errors.AsType[httpStatus](err)
	said, refuses := errors.AsType[*oauthError](err)
	told, isTold := errors.AsType[*oauth2.RetrieveError](err)
	timed, isTimed := errors.AsType[net.Error](err)
	switch {
	case refuses:
		return said.Error()
	case isTold && told.ErrorCode != "":
		return (&oauthError{told.ErrorCode, told.ErrorDescription}).Error()
	case isTold && told.Response.StatusCode > 299:
		return httpStatus(told.Response.StatusCode).Error()
	case isStatus:
		return code.Error()
	case errors.Is(err, errRedirect):
		return errRedirect.Error()
	case errors.Is(err, context.Canceled):
		return "nobody waits for it any more"
	case errors.Is(err, context.DeadlineExceeded), isTimed && timed.Timeout():
		return "it gave no answer in time"
	case isDNS:
		return fmt.Sprintf("there is no host %q", dns.Name)
	case isNetwork:
		return "it cannot be reached: " + network.Err.Error()
	case isTimed: // what is left of the network: a certificate that is not trusted
		return "it cannot be reached safely"
	}
	return errMalformed.Error()
}

// unavailable is an error that only the authorization server can cure, unless
// it has words already.
func serverUnavailable(issuer string, err error) error {
	if worded, ok := errors.AsType[*fault.Error](err); ok {
		return worded
	}
	return fault.New(fault.Unavailable, "has the authorization server %s, which gives no token: %s", issuerHost(issuer), reason(err))
}

// safe tells whether a secret may be sent to an address that the server at home
// named: over TLS, or on this machine, if the server is there.
func isSafeURL(raw, home string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	if h, err := url.Parse(home); isLoopback(u.Hostname()) {
		return err == nil && isLoopback(h.Hostname()) && (u.Scheme == "http" || u.Scheme == "https")
	}
	return u.Scheme == "https"
}

func isLoopback(name string) bool {
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
