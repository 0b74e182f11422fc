package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// TokenSource provides access tokens for a server.
type TokenSource interface {
	// Token returns the token to send; "" sends none.
	Token(ctx context.Context) (string, error)
	// Renew is called when the server rejected a request with this token; "" means without
	// one. nil means that Token returns a new token.
	Renew(ctx context.Context, rejected string, c Challenge) error
}

// Challenge is a server response that requires a token, or one with more scopes.
type Challenge struct {
	Metadata          string   `json:"metadata,omitempty"` // URL of the resource metadata; "" if not given
	Scopes            []string `json:"scopes,omitempty"`   // required scopes; nil if not given
	InsufficientScope bool     `json:"more,omitempty"`     // the token is valid, but lacks scopes
	AfterRenewal      bool     `json:"-"`                  // the token was obtained after another was rejected
}

// ErrInsufficientScope means that a valid token lacks scopes for the request.
var ErrInsufficientScope = errors.New("insufficient scope")

// maxRenewals limits how often one request is sent again with another token. More than one
// may be needed, since another process may renew the token at the same time, or log in.
const maxRenewals = 2

// sendAuthorized sends a request with the current token, and if the server rejects that,
// again with a renewed one.
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
		c, challenged := parseChallenge(res)
		if !challenged || tries == maxRenewals {
			return res, nil
		}
		res.Body.Close()
		if a, ok := r.Context().Value(requestKey{}).(*request); ok && a.rounds == 0 {
			a.sent.Store(false) // it was rejected
		}
		c.AfterRenewal = tries > 0
		if err := w.address.Tokens.Renew(r.Context(), token, c); err != nil {
			return nil, w.rememberDenial(err)
		}
	}
}

// rememberDenial records that no token is available, so that later requests on this
// connection return the same error. Otherwise the SDK would assume a legacy server when
// server/discover fails, send initialize and return its error, which hides the reason.
func (w *httpLink) rememberDenial(err error) error {
	denied, ok := errors.AsType[*fault.Error](err)
	if ok && denied.Kind == fault.Denied && !errors.Is(err, ErrInsufficientScope) {
		w.denied.Store(denied)
	}
	return err
}

// cloneRequest returns a copy of the request that can be sent, with a new body if the
// request can create one.
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

// parseChallenge reports whether a response requires a token, or one with more scopes, and
// returns the parameters of its challenge.
func parseChallenge(res *http.Response) (c Challenge, challenged bool) {
	if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
		return c, false
	}
	challenges, err := oauthex.ParseWWWAuthenticate(res.Header.Values("WWW-Authenticate"))
	if err != nil {
		challenges = nil // discovery uses well-known URIs
	}
	for _, s := range challenges {
		if s.Scheme != "bearer" {
			continue
		}
		c.Metadata, c.Scopes = s.Params["resource_metadata"], strings.Fields(s.Params["scope"])
		c.InsufficientScope = res.StatusCode == http.StatusForbidden && s.Params["error"] == "insufficient_scope"
	}
	return c, c.InsufficientScope || res.StatusCode == http.StatusUnauthorized
}
