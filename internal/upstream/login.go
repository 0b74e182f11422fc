package upstream

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

// Login runs an interactive login to a server. ctx bounds its duration.
func (s *Set) Login(ctx context.Context, server string, p Interaction) error {
	l, err := loginTo(s, server)
	if err != nil {
		return err
	}
	return l.authorize(ctx, p)
}

// Logout deletes a login and revokes its tokens. The first result reports why the
// revocation failed.
func (s *Set) Logout(ctx context.Context, server string) (unrevoked, err error) {
	l, err := loginTo(s, server)
	if err != nil {
		return nil, err
	}
	return l.revoke(ctx)
}

// loginTo returns the login to a server.
func loginTo(s *Set, name string) (*login, error) {
	v, done := s.use(name)
	if v == nil {
		return nil, unknownServer(name, s.names())
	}
	done()
	none := v.errorf(fault.Invalid, "is %s, which has no login", v.Kind.Noun())
	switch c := v.connector.(type) {
	case *remote:
		return &c.login, nil
	case *program:
		none = none.WithHint("set its credentials in env")
	}
	return nil, none
}

// login obtains the tokens for a server over HTTP.
type login struct {
	remote *remote
	last   atomic.Pointer[Login] // of the last connection; nil if it uses none
}

// lastLogin returns the stored login that the last connection used; nil if it used none.
func lastLogin(c Connector) Login {
	if r, ok := c.(*remote); ok {
		if last := r.login.last.Load(); last != nil {
			return *last
		}
	}
	return nil
}

// hasNewLogin reports whether the stored login has changed since the last attempt.
func hasNewLogin(c Connector) bool {
	last := lastLogin(c)
	return last != nil && last.Changed()
}

// tokens returns the source of access tokens for the server at a URL; nil if the
// configuration contains credentials or there is none.
func (l *login) tokens(ctx context.Context, at string) (TokenSource, error) {
	r := l.remote
	if r.Authorization == nil || r.hasCredentials(at) {
		return nil, nil
	}
	source, err := r.Authorization.Tokens(ctx, l.account(at))
	if person, ok := source.(Login); ok {
		l.last.Store(&person)
	}
	return source, err
}

// hasCredentials reports whether the configuration contains credentials: an
// Authorization header, or a user in the URL.
func (r Remote) hasCredentials(at string) bool {
	if u, err := url.Parse(at); err == nil && u.User != nil {
		return true
	}
	for name := range r.Headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

func (l *login) account(at string) Account {
	h := l.remote.host
	return Account{
		Server:   h.name,
		URL:      at,
		Logins:   h.set.cfg.Logins,
		OnSecret: h.redact.addSecret,
		OnToken:  h.AddToken,
		Log:      h.set.cfg.Log,
		Resolve: func(ctx context.Context, what, value string) (string, error) {
			value, err := h.set.cfg.Resolve(ctx, value)
			if err != nil {
				return "", unresolved("setting", what, err)
			}
			return value, nil
		},
	}
}

// prepare returns a login to the server at a URL that a person can run.
func (l *login) prepare(ctx context.Context) (at string, run Login, err error) {
	r := l.remote
	switch {
	case r.Authorization == nil:
		return "", nil, fault.New(fault.Invalid, "has no login")
	case r.host.set.cfg.Logins == nil:
		return "", nil, fault.New(fault.Unavailable, "cannot be logged in to: this process has no login store")
	}
	if at, err = r.resolveURL(ctx); err != nil {
		return "", nil, err
	}
	if r.hasCredentials(at) {
		return "", nil, fault.New(fault.Invalid, "needs no login: its headers contain Authorization, or its url a user name").
			WithHint("remove that to log in")
	}
	source, err := r.Authorization.Tokens(ctx, l.account(at))
	if err != nil {
		return "", nil, err
	}
	run, ok := source.(Login)
	if !ok {
		return "", nil, fault.New(fault.Invalid, "needs no login: it uses client credentials")
	}
	return at, run, nil
}

// authorize lets a person log in.
func (l *login) authorize(ctx context.Context, p Interaction) error {
	at, run, err := l.prepare(ctx)
	if err != nil {
		return l.failure(err)
	}
	c, challenged, err := l.requestChallenge(ctx, at)
	switch {
	case challenged:
	case err != nil:
		return err
	case !run.Requested(): // by an earlier tool call
		return l.failure(fault.New(fault.Invalid, "does not require a login"))
	}
	return l.failure(run.Authorize(ctx, c, p))
}

// revoke deletes the login.
func (l *login) revoke(ctx context.Context) (unrevoked, err error) {
	_, run, err := l.prepare(ctx)
	if err != nil {
		return nil, l.failure(err)
	}
	unrevoked, err = run.Logout(ctx)
	return l.failure(unrevoked), l.failure(err)
}

// failure returns the displayable error of a login.
func (l *login) failure(err error) error {
	if err == nil {
		return nil
	}
	return l.remote.host.transportError(err, "logging in")
}

// requestChallenge calls the server without a token and returns its challenge. received
// is false if the server accepted that. Its error is displayable.
func (l *login) requestChallenge(ctx context.Context, at string) (c Challenge, received bool, err error) {
	r := l.remote
	headers, err := r.resolveHeaders(ctx)
	if err != nil {
		return c, false, l.failure(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.host.startTimeout, errTimeout)
	defer cancel()
	anonymous := &challengeRecorder{}
	session, err := r.connect(ctx, mcp.Address{URL: at, Headers: headers, Tokens: anonymous})
	if err != nil {
		err = r.host.startError(err, r.host.startTimeout)
	} else {
		_, _, err = session.Tools(ctx, r.host.name)
		err = r.host.requestError(ctx, "listing its tools", err, func() error { return nil })
		session.Close()
	}
	c, received = anonymous.result()
	return c, received, err
}

// challengeRecorder sends no token and records the challenge of the server.
type challengeRecorder struct {
	mu        sync.Mutex
	received  bool
	challenge Challenge
}

func (s *challengeRecorder) result() (Challenge, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.challenge, s.received
}

// Token implements mcp.TokenSource.
func (*challengeRecorder) Token(context.Context) (string, error) { return "", nil }

// Renew implements mcp.TokenSource.
func (s *challengeRecorder) Renew(_ context.Context, _ string, c Challenge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.challenge, s.received = c, true
	return fault.New(fault.Denied, "needs a login")
}
