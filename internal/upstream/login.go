package upstream

import (
	"context"
	"net/url"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/oauth"
)

// tokenSource returns the source of access tokens for the server at a URL; nil if the
// configuration contains credentials or there is no login store.
func (v *server) tokenSource(ctx context.Context, at string) (mcp.TokenSource, error) {
	if v.hasCredentials(at) || !v.ClientCredentials && v.set.cfg.Logins == nil {
		return nil, nil
	}
	cfg, err := v.oauthConfig(ctx, at)
	if err != nil {
		return nil, err
	}
	if v.ClientCredentials {
		return oauth.NewClientCredentials(cfg), nil
	}
	login := oauth.NewLogin(cfg)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.login = login
	return login, nil
}

// hasCredentials reports whether the configuration contains credentials: an
// Authorization header, or a user in the URL.
func (v *server) hasCredentials(at string) bool {
	if u, err := url.Parse(at); err == nil && u.User != nil {
		return true
	}
	for name := range v.Headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

func (v *server) oauthConfig(ctx context.Context, at string) (oauth.Config, error) {
	client := v.Client
	for what, value := range map[string]*string{"client_id": &client.ID, "client_secret": &client.Secret, "private_key": &client.Key} {
		resolved, err := v.set.cfg.Resolve(ctx, *value)
		if err != nil {
			return oauth.Config{}, v.unresolvedValue("setting", what, err)
		}
		*value = resolved
	}
	v.redact.addSecret(client.Secret)
	return oauth.Config{Server: v.Name, URL: at, Client: client, Store: v.set.cfg.Logins, OnSecret: v.redact.addToken, Log: v.set.cfg.Log}, nil
}

// HasLogin reports whether a store has a login to a server.
func HasLogin(logins *secret.Store, server string) bool { return oauth.HasLogin(logins, server) }

// loginChanged reports whether the stored login changed since the last attempt. The
// caller holds mu.
func (v *server) loginChanged() bool { return v.login != nil && v.login.Changed() }

// Login runs an interactive login to a server. ctx bounds its duration.
func (s *Set) Login(ctx context.Context, server string, p Interaction) error {
	v, at, err := s.loginTarget(ctx, server)
	if err != nil {
		return err
	}
	cfg, err := v.oauthConfig(ctx, at.URL)
	if err != nil {
		return err
	}
	login := oauth.NewLogin(cfg)
	c, challenged, err := v.requestChallenge(ctx, at.URL)
	switch {
	case challenged:
	case err != nil:
		return err
	case !login.Requested(): // by an earlier tool call
		return v.errorf(fault.Invalid, "does not require a login")
	}
	return v.loginError(login.Authorize(ctx, c, p))
}

// Logout deletes a login and revokes its tokens. The first result reports why the
// revocation failed.
func (s *Set) Logout(ctx context.Context, server string) (unrevoked, err error) {
	v, at, err := s.loginTarget(ctx, server)
	if err != nil {
		return nil, err
	}
	cfg, err := v.oauthConfig(ctx, at.URL)
	if err != nil {
		return nil, err
	}
	unrevoked, err = oauth.NewLogin(cfg).Logout(ctx)
	return v.loginError(unrevoked), v.loginError(err)
}

// loginError adds the server's name to an error of package oauth.
func (v *server) loginError(err error) error {
	if err == nil {
		return nil
	}
	return v.transportError(err, "logging in")
}

// loginTarget returns a server that supports interactive logins, and its resolved
// configuration.
func (s *Set) loginTarget(ctx context.Context, name string) (*server, Server, error) {
	s.mu.Lock()
	v := s.servers[name]
	s.mu.Unlock()
	switch {
	case v == nil:
		return nil, Server{}, s.unknownServer(name)
	case v.Command != "":
		return nil, Server{}, v.errorf(fault.Invalid, "is a local program, which has no login").WithHint("set its credentials in env")
	case v.ClientCredentials:
		return nil, Server{}, v.errorf(fault.Invalid, "needs no login: it uses client credentials")
	case s.cfg.Logins == nil:
		return nil, Server{}, v.errorf(fault.Unavailable, "cannot be logged in to: this process has no login store")
	}
	at, err := v.resolveServer(ctx)
	if err == nil && v.hasCredentials(at.URL) {
		err = v.errorf(fault.Invalid, "needs no login: its headers contain Authorization, or its url a user name").WithHint("remove that to log in")
	}
	return v, at, err
}

// requestChallenge calls the server without a token and returns its challenge. received
// is false if the server accepted that.
func (v *server) requestChallenge(ctx context.Context, at string) (c oauth.Challenge, received bool, err error) {
	headers, err := v.resolveValues(ctx, "header", v.Headers)
	if err != nil {
		return c, false, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, v.StartTimeout, errTimeout)
	defer cancel()
	anonymous := &challengeRecorder{}
	conn, err := v.connectHTTP(ctx, mcp.Address{URL: at, Headers: headers, Tokens: anonymous})
	if err == nil {
		_, _, err = conn.session.Tools(ctx, v.Name)
		err = v.callError(ctx, conn, "listing its tools", err)
		conn.session.Close()
	}
	c, received = anonymous.result()
	return c, received, err
}

// challengeRecorder sends no token and records the challenge of the server.
type challengeRecorder struct {
	mu        sync.Mutex
	received  bool
	challenge oauth.Challenge
}

func (s *challengeRecorder) result() (oauth.Challenge, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.challenge, s.received
}

// Token implements mcp.TokenSource.
func (*challengeRecorder) Token(context.Context) (string, error) { return "", nil }

// Renew implements mcp.TokenSource.
func (s *challengeRecorder) Renew(_ context.Context, _ string, c oauth.Challenge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.challenge, s.received = c, true
	return fault.New(fault.Denied, "needs a login")
}
