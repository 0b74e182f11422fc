package oauth

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// Login is what a person's login to one server left.
type Login struct {
	cfg   Config
	mutex ctxMutex // held by who renews

	mu       sync.Mutex
	record   *record // nil if there is none
	err      error   // why it cannot be read
	stamp    secret.Stamp
	loaded   bool
	rejected rejectedToken

	// under turn
	renewErr error     // why the last renewal led to nothing
	retryAt  time.Time // it is not tried again before
}

// NewLogin returns the Login of a server. Nothing is read yet.
func NewLogin(cfg Config) *Login { return &Login{cfg: cfg.withDefaults(), mutex: make(ctxMutex, 1)} }

// Token is the token to send, "" if there is none. One that ends soon is renewed
// first.
func (l *Login) Token(ctx context.Context) (string, error) {
	r, err := l.current()
	if err != nil || r == nil {
		return "", err
	}
	if !needsRenewal(r.ObtainedAt, r.Expiry) || r.Refresh == "" {
		return r.Access, nil
	}
	err = l.renew(ctx, r.Access, "has ended")
	if err != nil && time.Now().Before(r.Expiry) { // it is good until then, whatever became of the login
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

// Renew deals with a token that the server refused, "" if none was sent. Without
// an error there is another one now: by a login, by another process, or because
// it was renewed here.
func (l *Login) Renew(ctx context.Context, refused string, c Challenge) error {
	r, err := l.current()
	switch {
	case err != nil:
		return err
	case r != nil && r.Access != "" && r.Access != refused:
		return nil
	case r == nil || r.Access == "":
		return l.loginNeeded(ctx, c)
	case c.InsufficientScope:
		return l.loginNeeded(ctx, c)
	case l.rejected.recentlyRejected(refused, c.AfterRenewal):
		return l.cfg.loginRequired("needs a new login: it refuses a token that was just given")
	case r.Refresh == "":
		return l.cfg.loginRequired("needs a new login: its token was refused, and cannot be renewed")
	}
	return l.renew(ctx, refused, "was refused")
}

// Changed tells whether the login on disk is another one than was last used.
func (l *Login) Changed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.loaded || !l.stamp.Equal(l.cfg.Safe.Stamp(l.cfg.recordName()))
}

// Wanted tells whether the server asked for a login, or has one.
func (l *Login) Requested() bool {
	r, err := l.current()
	return r != nil && (r.Access != "" || r.Challenge != nil) || err != nil
}

// now is the record as it is on disk. What is returned is not changed any more.
func (l *Login) current() (*record, error) {
	if l.Changed() {
		r, stamp, err := l.cfg.load()
		l.set(r, stamp, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record, l.err
}

func (l *Login) set(r *record, stamp secret.Stamp, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record, l.stamp, l.err, l.loaded = r, stamp, err, true
}

// alone lets f change what is kept while nobody else does, here and in other
// processes. It goes on for a moment when nobody waits any more.
func (l *Login) exclusive(ctx context.Context, f func(context.Context) error) error {
	release, err := l.mutex.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := withGrace(ctx)
	defer cancel()
	waiting, done := context.WithTimeout(ctx, 2*requestTimeout)
	defer done()
	unlock, err := l.cfg.Safe.Lock(waiting, l.cfg.recordName())
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "has a login that another process holds, or that cannot be written").
			WithHint("the data directory must belong to the user that runs Sandpiper")
	}
	defer unlock()
	return f(ctx)
}

// put keeps a record for all processes.
func (l *Login) put(r *record) error {
	stamp, err := l.cfg.save(r)
	if err == nil {
		l.set(r, stamp, nil)
	}
	return err
}

// renew replaces a token that is of no use any more; fate is why. Whoever comes
// second finds that it was done.
func (l *Login) renew(ctx context.Context, used, fate string) error {
	return l.exclusive(ctx, func(ctx context.Context) error {
		r, err := l.current()
		if err != nil || r == nil || r.Access != used || r.Refresh == "" {
			return err // without one the server tells what is missing
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
			return l.renewalRefused(r, fate, err)
		case hasErrorCode(err, "invalid_client", "unauthorized_client"):
			l.renewErr, l.retryAt = l.renewalRefused(r, fate, err), time.Now().Add(renewRetryDelay)
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

// pause is how long after a renewal that led to nothing everybody hears the same
// and nobody asks again.
const renewRetryDelay = 2 * time.Second

func (l *Login) renewalRefused(r *record, fate string, err error) error {
	return l.cfg.loginRequired("needs a new login: its token %s, and %s does not renew it: %s", fate, issuerHost(r.Issuer), reason(err))
}

// take puts a token into the record.
func (r *record) setToken(got *oauth2.Token, asked []string) {
	r.Access, r.ObtainedAt, r.Expiry, r.Scopes = got.AccessToken, time.Now(), got.Expiry, grantedScopes(got, asked)
	if got.RefreshToken != "" {
		r.Refresh = got.RefreshToken
	}
}

// keep uses a record from now on, also if it cannot be written.
func (l *Login) persist(r *record) {
	stamp, err := l.cfg.save(r)
	if err != nil {
		l.cfg.Log.Error("a renewed login could not be kept; it is lost with this process", "server", l.cfg.Server, "error", err)
		stamp = l.cfg.Safe.Stamp(l.cfg.recordName())
	}
	l.set(r, stamp, nil)
}

// ErrRights says that a token is good for other things than what was asked.
var ErrInsufficientScope = errors.New("the token has too few rights")

// want is the error of who needs a login. What the server wants is kept for that
// login, which may happen in another process.
func (l *Login) loginNeeded(ctx context.Context, c Challenge) error {
	err := l.cfg.loginRequired("needs a login")
	if c.InsufficientScope {
		err = l.cfg.loginRequired("needs a login with more rights (%s)", sanitize.Line(strings.Join(c.Scopes, " "), 200))
		err.Cause = ErrInsufficientScope
	}
	if c.Metadata == "" {
		err = err.WithHint("%s, or give its credentials as headers", err.Hint)
	}
	if noted := l.storeChallenge(ctx, c); noted != nil {
		l.cfg.Log.Warn("what a server wants of a login could not be kept", "server", l.cfg.Server, "error", noted)
	}
	return err
}

func (l *Login) storeChallenge(ctx context.Context, c Challenge) error {
	c.AfterRenewal = false
	if r, err := l.current(); err != nil || r != nil && r.Challenge.equal(c) {
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

func (c *Challenge) equal(o Challenge) bool {
	return c != nil && c.Metadata == o.Metadata && c.InsufficientScope == o.InsufficientScope && slices.Equal(c.Scopes, o.Scopes)
}

// Forget removes the login, and has the authorization server revoke its tokens.
// The first result says why that could not be done. A client that was registered is
// kept for the next login, and removed where there was no login.
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
			return fault.New(fault.NotFound, "has no login here")
		case r != nil: // else it was for another address, and nobody knows whose
			unrevoked = l.revoke(ctx, r)
		}
		return nil
	})
	return unrevoked, err
}

// remove removes what is kept but for the client of a login that there was.
func (l *Login) remove(r *record) error {
	if r != nil && r.Access != "" && r.Registration != nil {
		return l.put(&record{URL: r.URL, Registration: r.Registration})
	}
	if err := l.cfg.Safe.Delete(l.cfg.recordName()); err != nil {
		return fault.Wrap(fault.Unavailable, err, "has a login that cannot be removed")
	}
	l.set(nil, secret.Stamp{}, nil)
	return nil
}

// revoke ends both tokens; that of the refresh token comes first, since it ends
// the other with it where servers keep them together. An access token that is no
// entry in a database of the server (a JWT) cannot be revoked, and ends soon.
func (l *Login) revoke(ctx context.Context, r *record) error {
	if r.Revocation == "" {
		return fault.New(fault.Unavailable, "has the authorization server %s, which revokes no tokens", issuerHost(r.Issuer))
	}
	var failed error
	for _, t := range []struct{ token, hint string }{{r.Refresh, "refresh_token"}, {r.Access, "access_token"}} {
		if t.token == "" {
			continue
		}
		err := l.cfg.revoke(ctx, r, t.token, t.hint)
		if t.token == r.Access && r.Refresh != "" && failed == nil && hasErrorCode(err, "unsupported_token_type") {
			continue
		}
		if err != nil && failed == nil {
			failed = fault.New(fault.Unavailable, "has the authorization server %s, which did not revoke its tokens: %s", issuerHost(r.Issuer), reason(err))
		}
	}
	return failed
}
