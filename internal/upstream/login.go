package upstream

import (
	"context"
	"net/url"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/oauth"
)

// tokens are what the server at an address is asked with, if it wants to know who
// asks; nil where its headers say that.
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

// authorized tells whether the configuration says what to send, in headers or as
// name and password in the address.
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
	return oauth.Config{Server: v.Name, URL: at, Client: client, Safe: v.set.cfg.Logins, OnSecret: v.redact.addToken, Log: v.set.cfg.Log}, nil
}

// relogged tells whether somebody logged in since the last connection was tried.
// It is called under mu.
func (v *server) loginChanged() bool { return v.login != nil && v.login.Changed() }

// Login lets a person log in to a server. ctx bounds how long they have.
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
	c, asked, err := v.requestChallenge(ctx, at.URL)
	switch {
	case asked:
	case err != nil:
		return err
	case !login.Requested(): // by a tool that somebody called
		return v.errorf(fault.Invalid, "answers without a login")
	}
	return v.loginError(login.Authorize(ctx, c, p))
}

// Logout forgets a login, and has its tokens revoked. The first result says why
// that was not possible.
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

// say puts the name of the server before an error of its tokens.
func (v *server) loginError(err error) error {
	if err == nil {
		return nil
	}
	return v.transportError(err, "logging in")
}

// person finds a server that a person can log in to, and where it is.
func (s *Set) loginTarget(ctx context.Context, name string) (*server, Server, error) {
	v := s.servers[name]
	switch {
	case v == nil:
		return nil, Server{}, s.unknownServer(name)
	case v.Command != "":
		return nil, Server{}, v.errorf(fault.Invalid, "is a program, which is not logged in to").WithHint("what it needs to know stands in its env")
	case v.ClientCredentials:
		return nil, Server{}, v.errorf(fault.Invalid, "needs no login: it gets its tokens with client credentials")
	case s.cfg.Logins == nil:
		return nil, Server{}, v.errorf(fault.Unavailable, "cannot be logged in to: there is no place for logins")
	}
	at, err := v.resolveServer(ctx)
	if err == nil && v.hasCredentials(at.URL) {
		err = v.errorf(fault.Invalid, "needs no login: its headers have an Authorization, or its url a name").WithHint("remove that to log in")
	}
	return v, at, err
}

// challenge asks the server as somebody unknown, for what it says to that; it may
// not mind.
func (v *server) requestChallenge(ctx context.Context, at string) (c oauth.Challenge, asked bool, err error) {
	headers, err := v.resolveValues(ctx, "header", v.Headers)
	if err != nil {
		return c, false, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, v.StartTimeout, errTimeout)
	defer cancel()
	unknown := &challengeRecorder{}
	conn, err := v.connectHTTP(ctx, mcp.Address{URL: at, Headers: headers, Tokens: unknown})
	if err == nil {
		_, _, err = conn.session.Tools(ctx, v.Name)
		err = v.callError(ctx, conn, "listing its tools", err)
		conn.session.Close()
	}
	c, asked = unknown.result()
	return c, asked, err
}

// stranger has no token, and remembers what a server said to that.
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

// Token implements mcp.Tokens.
func (*challengeRecorder) Token(context.Context) (string, error) { return "", nil }

// Renew implements mcp.Tokens.
func (s *challengeRecorder) Renew(_ context.Context, _ string, c oauth.Challenge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.challenge, s.received = c, true
	return fault.New(fault.Denied, "needs a login")
}
