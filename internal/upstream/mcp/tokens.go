package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/oauth"
)

// Tokens are what a server asks for that wants to know who calls it.
type TokenSource interface {
	// Token is what to send; "" sends none.
	Token(ctx context.Context) (string, error)
	// Renew is told that the server refused a token, "" if none was sent. nil means
	// that there is another one now.
	Renew(ctx context.Context, refused string, c oauth.Challenge) error
}

// renewals are how often one request is sent again with another token: another
// process may have renewed it as well, or logged in.
const maxRenewals = 2

// authorized sends a request with the token there is, and again with another if
// that is refused.
func (w *httpLink) sendAuthorized(r *http.Request) (*http.Response, error) {
	if w.address.Tokens == nil {
		return w.base.RoundTrip(r)
	}
	if denied := w.denied.Load(); denied != nil {
		return nil, denied
	}
	for tries := 0; ; tries++ {
		token, err := w.address.Tokens.Token(r.Context())
		if err != nil {
			return nil, w.rememberDenial(err)
		}
		sent, err := cloneRequest(r)
		if err != nil {
			return nil, err
		}
		if token != "" {
			sent.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := w.base.RoundTrip(sent)
		if err != nil {
			return nil, err
		}
		c, asks := parseChallenge(res)
		if !asks || tries == maxRenewals {
			return res, nil
		}
		res.Body.Close()
		c.AfterRenewal = tries > 0
		if err := w.address.Tokens.Renew(r.Context(), token, c); err != nil {
			return nil, w.rememberDenial(err)
		}
	}
}

// deny remembers that there is no token for this connection. The SDK would take
// the refusal of its first question for that of an old server, ask in the older
// way, and have the answer to that hide why.
func (w *httpLink) rememberDenial(err error) error {
	denied, ok := errors.AsType[*fault.Error](err)
	if ok && denied.Kind == fault.Denied && !errors.Is(err, oauth.ErrInsufficientScope) {
		w.denied.Store(denied)
	}
	return err
}

// again is a request as it was before it was sent.
func cloneRequest(r *http.Request) (*http.Request, error) {
	sent := r.Clone(r.Context())
	if r.GetBody == nil {
		return sent, nil
	}
	var body io.ReadCloser
	body, err := r.GetBody()
	sent.Body = body
	return sent, err
}

// challenge tells whether an answer asks for a token, or for one with more rights.
func parseChallenge(res *http.Response) (c oauth.Challenge, asks bool) {
	if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
		return c, false
	}
	said, err := oauthex.ParseWWWAuthenticate(res.Header.Values("WWW-Authenticate"))
	if err != nil {
		said = nil // where to log in is looked for in other places
	}
	for _, s := range said {
		if s.Scheme != "bearer" {
			continue
		}
		c.Metadata, c.Scopes = s.Params["resource_metadata"], strings.Fields(s.Params["scope"])
		c.InsufficientScope = res.StatusCode == http.StatusForbidden && s.Params["error"] == "insufficient_scope"
	}
	return c, c.InsufficientScope || res.StatusCode == http.StatusUnauthorized
}
