package oauth

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// Login is a stored interactive login to one server.
type Login struct {
	storedRecord
	rejected rejectedToken

	// guarded by storedRecord.mutex
	renewErr error     // error of the last renewal
	retryAt  time.Time // earliest next renewal
}

// NewLogin returns the Login of a server. It reads nothing.
func NewLogin(cfg Config) *Login {
	return &Login{storedRecord: storedRecord{cfg: cfg.withDefaults(), mutex: make(ctxMutex, 1)}}
}

// Token returns the token to send, "" if there is none. A token that expires soon is
// renewed first.
func (l *Login) Token(ctx context.Context) (string, error) {
	r, err := l.current()
	if err != nil || r == nil {
		return "", err
	}
	if !needsRenewal(r.ObtainedAt, r.Expiry) || r.Refresh == "" {
		return r.Access, nil
	}
	err = l.renew(ctx, r.Access, "has expired")
	if err != nil && time.Now().Before(r.Expiry) { // still valid
		return r.Access, nil
	}
	if err != nil {
		return "", err
	}
	r, err = l.current()
	if err != nil || r == nil {
		return "", err
	}
	return r.Access, nil
}

// Renew handles a token that the server rejected, "" if none was sent. On success
// another token is available: from a login, from another process, or renewed here.
func (l *Login) Renew(ctx context.Context, refused string, c Challenge) error {
	r, err := l.current()
	switch {
	case err != nil:
		return err
	case r != nil && r.Access != "" && r.Access != refused:
		return nil
	case r == nil || r.Access == "" || c.InsufficientScope:
		return l.loginNeeded(ctx, c)
	case l.rejected.recentlyRejected(refused, c.AfterRenewal):
		return l.cfg.loginRequired("needs a new login: it rejects a new token")
	case r.Refresh == "":
		return l.cfg.loginRequired("needs a new login: its token was rejected and cannot be renewed")
	}
	return l.renew(ctx, refused, "was rejected")
}

// Requested reports whether the server required a login, or a login exists.
func (l *Login) Requested() bool {
	r, err := l.current()
	return r != nil && (r.Access != "" || r.Challenge != nil) || err != nil
}

// renew replaces a token for the reason in fate, unless a concurrent call has done so.
func (l *Login) renew(ctx context.Context, used, fate string) error {
	return l.exclusive(ctx, func(ctx context.Context) error {
		r, err := l.current()
		if err != nil || r == nil || r.Access != used || r.Refresh == "" {
			return err // without a login, the server sends a challenge
		}
		if time.Now().Before(l.retryAt) {
			return l.renewErr
		}
		next := *r
		got, err := l.cfg.requestToken(ctx, r.Issuer, r.Endpoint, r.Client, url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {r.Refresh}, "resource": {r.Resource},
		})
		switch {
		case hasErrorCode(err, "invalid_grant"):
			next.Refresh = ""
			l.persist(&next)
			return l.cfg.renewalRefused(r, fate, err)
		case hasErrorCode(err, "invalid_client", "unauthorized_client"):
			l.renewErr, l.retryAt = l.cfg.renewalRefused(r, fate, err), time.Now().Add(renewRetryDelay)
			return l.renewErr
		case err != nil:
			l.renewErr, l.retryAt = serverUnavailable(r.Issuer, err), time.Now().Add(renewRetryDelay)
			return l.renewErr
		}
		next.setToken(got, r.Scopes)
		l.persist(&next)
		return nil
	})
}

// renewRetryDelay is how long after a failed renewal the same error is returned without
// a new request.
const renewRetryDelay = 2 * time.Second

func (c Config) renewalRefused(r *record, fate string, err error) error {
	return c.loginRequired("needs a new login: its token %s, and %s does not renew it: %s", fate, issuerOrigin(r.Issuer), reason(err))
}

// loginNeeded returns the error for a missing login. It stores the challenge for the
// login, which may happen in another process.
func (l *Login) loginNeeded(ctx context.Context, c Challenge) error {
	err := l.cfg.loginRequired("needs a login")
	if c.InsufficientScope {
		err = l.cfg.loginRequired("needs a login with more scopes (%s)", sanitize.Line(strings.Join(c.Scopes, " "), 200))
		err.Cause = upstream.ErrInsufficientScope
	}
	if c.Metadata == "" {
		err = err.WithHint("%s, or set its credentials in headers", err.Hint)
	}
	if storeErr := l.storeChallenge(ctx, c); storeErr != nil {
		l.cfg.Log.Warn("the challenge of a server could not be stored", "server", l.cfg.Server, "error", storeErr)
	}
	return err
}

func (l *Login) storeChallenge(ctx context.Context, c Challenge) error {
	c.AfterRenewal = false
	if r, err := l.current(); err != nil || r != nil && sameChallenge(r.Challenge, c) {
		return err
	}
	return l.exclusive(ctx, func(context.Context) error {
		next := record{URL: l.cfg.URL}
		if r, err := l.current(); err != nil {
			return err
		} else if r != nil {
			next = *r
		}
		next.Challenge = &c
		return l.put(&next)
	})
}

func sameChallenge(c *Challenge, o Challenge) bool {
	return c != nil && c.Metadata == o.Metadata && c.InsufficientScope == o.InsufficientScope && slices.Equal(c.Scopes, o.Scopes)
}

// Logout deletes the login and revokes its tokens. The first result reports why the
// revocation failed. A registered client is kept for the next login, and deleted if
// there was no login.
func (l *Login) Logout(ctx context.Context) (unrevoked, err error) {
	err = l.exclusive(ctx, func(ctx context.Context) error {
		r, stamp, unread := l.cfg.load()
		if err := l.remove(r); err != nil {
			return err
		}
		switch {
		case unread != nil:
			unrevoked = unread
		case stamp.Equal(secret.Stamp{}) || r != nil && r.Access == "":
			return fault.New(fault.NotFound, "has no login")
		case r != nil: // otherwise it was for another URL
			unrevoked = l.cfg.revokeTokens(ctx, r)
		}
		return nil
	})
	return unrevoked, err
}

// revokeTokens revokes both tokens. The refresh token comes first, since some servers revoke
// the access token with it. A self-contained access token (JWT) cannot be revoked and
// expires soon.
func (c Config) revokeTokens(ctx context.Context, r *record) error {
	if r.Revocation == "" {
		return fault.New(fault.Unavailable, "uses the authorization server %s, which does not support revocation", issuerOrigin(r.Issuer))
	}
	var failed error
	for _, t := range []struct{ token, hint string }{{r.Refresh, "refresh_token"}, {r.Access, "access_token"}} {
		if t.token == "" {
			continue
		}
		err := c.revoke(ctx, r, t.token, t.hint)
		if t.token == r.Access && r.Refresh != "" && failed == nil && hasErrorCode(err, "unsupported_token_type") {
			continue
		}
		if err != nil && failed == nil {
			failed = fault.New(fault.Unavailable, "uses the authorization server %s, which did not revoke its tokens: %s",
				issuerOrigin(r.Issuer), reason(err))
		}
	}
	return failed
}
