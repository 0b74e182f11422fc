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
	requestTimeout = 10 * time.Second // for one response of an authorization server
	maxResponse    = 1 << 20          // bytes of it
)

// httpClient calls authorization servers. It follows redirects of GET requests on the same host only, and therefore never resends a secret.
var httpClient = &http.Client{Timeout: requestTimeout, CheckRedirect: func(next *http.Request, before []*http.Request) error {
	first := before[0]
	if first.Method != http.MethodGet || len(before) > 3 || next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host {
		return errRedirect
	}
	return nil
}}

var (
	errRedirect  = errors.New("it redirects to another host")
	errMalformed = errors.New("its response is malformed")
)

// httpStatus is an HTTP status without an OAuth error.
type httpStatus int

func (s httpStatus) Error() string {
	return fmt.Sprintf("it answered %d %s", int(s), http.StatusText(int(s)))
}

// fetchJSON gets a JSON object.
func fetchJSON(ctx context.Context, from string, to any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return errMalformed
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	return doJSON(req, to)
}

// doJSON sends a request and parses the response as a JSON object.
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

// oauthError is an OAuth error response.
type oauthError struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

func (r *oauthError) Error() string {
	if r.Description == "" {
		return "it returned " + sanitize.Line(r.Code, 100)
	}
	return fmt.Sprintf("it returned %s (%s)", sanitize.Line(r.Code, 100), sanitize.Line(r.Description, 200))
}

func responseError(code int, body []byte) error {
	r := &oauthError{}
	if json.Unmarshal(body, r) == nil && r.Code != "" {
		return r
	}
	return httpStatus(code)
}

// isAbsent reports whether err means that no metadata exists at an address.
func isAbsent(err error) bool {
	_, answered := errors.AsType[httpStatus](err)
	_, refuses := errors.AsType[*oauthError](err)
	return answered || refuses || errors.Is(err, errMalformed)
}

// reason describes an error of the network or of a response as the end of a sentence.
func reason(err error) string {
	network, isNetwork := errors.AsType[*net.OpError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	code, isStatus := errors.AsType[httpStatus](err)
	refusal, refused := errors.AsType[*oauthError](err)
	retrieveErr, isRetrieveErr := errors.AsType[*oauth2.RetrieveError](err)
	timed, isTimed := errors.AsType[net.Error](err)
	switch {
	case refused:
		return refusal.Error()
	case isRetrieveErr && retrieveErr.ErrorCode != "":
		return (&oauthError{retrieveErr.ErrorCode, retrieveErr.ErrorDescription}).Error()
	case isRetrieveErr && retrieveErr.Response.StatusCode > 299:
		return httpStatus(retrieveErr.Response.StatusCode).Error()
	case isStatus:
		return code.Error()
	case errors.Is(err, errRedirect):
		return errRedirect.Error()
	case errors.Is(err, context.Canceled):
		return "the request was cancelled"
	case errors.Is(err, context.DeadlineExceeded), isTimed && timed.Timeout():
		return "it did not respond in time"
	case isDNS:
		return fmt.Sprintf("host %q not found", dns.Name)
	case isNetwork:
		return "connection failed: " + network.Err.Error()
	case isTimed: // other network errors, such as an untrusted certificate
		return "the connection failed"
	}
	return errMalformed.Error()
}

// serverUnavailable returns an error that only the authorization server can remedy; a
// fault is returned unchanged.
func serverUnavailable(issuer string, err error) error {
	if own, ok := errors.AsType[*fault.Error](err); ok {
		return own
	}
	return fault.New(fault.Unavailable, "uses the authorization server %s, which issued no token: %s", issuerOrigin(issuer), reason(err))
}

// isSafeURL reports whether a secret may be sent to a URL named by the server at home:
// over TLS, or on this machine if the server is there too.
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
