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
func (v *server) tokens(ctx context.Context, at string) (mcp.Tokens, error) {
	if v.authorized(at) || !v.Machine && v.set.cfg.Logins == nil {
		return nil, nil
	}
	cfg, err := v.oauth(ctx, at)
	if err != nil {
		return nil, err
	}
	if v.Machine {
		return oauth.NewMachine(cfg), nil
	}
	login := oauth.NewLogin(cfg)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.login = login
	return login, nil
}

// authorized tells whether the configuration says what to send, in headers or as
// name and password in the address.
func (v *server) authorized(at string) bool {
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

func (v *server) oauth(ctx context.Context, at string) (oauth.Config, error) {
	client := v.Client
	for what, value := range map[string]*string{"client_id": &client.ID, "client_secret": &client.Secret, "private_key": &client.Key} {
		resolved, err := v.set.cfg.Resolve(ctx, *value)
		if err != nil {
			return oauth.Config{}, v.unresolved("setting", what, err)
		}
		*value = resolved
	}
	v.redact.add(client.Secret)
	return oauth.Config{Server: v.Name, URL: at, Client: client, Safe: v.set.cfg.Logins, Secret: v.redact.pass, Log: v.set.cfg.Log}, nil
}

// relogged tells whether somebody logged in since the last connection was tried.
// It is called under mu.
func (v *server) relogged() bool { return v.login != nil && v.login.Changed() }

// Login lets a person log in to a server. ctx bounds how long they have.
func (s *Set) Login(ctx context.Context, server string, p Person) error {
	v, at, err := s.person(ctx, server)
	if err != nil {
		return err
	}
	cfg, err := v.oauth(ctx, at.URL)
	if err != nil {
		return err
	}
	login := oauth.NewLogin(cfg)
	c, asked, err := v.challenge(ctx, at.URL)
	switch {
	case asked:
	case err != nil:
		return err
	case !login.Wanted(): // by a tool that somebody called
		return v.fault(fault.Invalid, "answers without a login")
	}
	return v.say(login.Authorize(ctx, c, p))
}

// Logout forgets a login, and has its tokens revoked. The first result says why
// that was not possible.
func (s *Set) Logout(ctx context.Context, server string) (unrevoked, err error) {
	v, at, err := s.person(ctx, server)
	if err != nil {
		return nil, err
	}
	cfg, err := v.oauth(ctx, at.URL)
	if err != nil {
		return nil, err
	}
	unrevoked, err = oauth.NewLogin(cfg).Forget(ctx)
	return v.say(unrevoked), v.say(err)
}

// say puts the name of the server before an error of its tokens.
func (v *server) say(err error) error {
	if err == nil {
		return nil
	}
	return v.overHTTP(err, "logging in")
}

// person finds a server that a person can log in to, and where it is.
func (s *Set) person(ctx context.Context, name string) (*server, Server, error) {
	v := s.servers[name]
	switch {
	case v == nil:
		return nil, Server{}, s.unknown(name)
	case v.Command != "":
		return nil, Server{}, v.fault(fault.Invalid, "is a program, which is not logged in to").WithHint("what it needs to know stands in its env")
	case v.Machine:
		return nil, Server{}, v.fault(fault.Invalid, "needs no login: it gets its tokens with client credentials")
	case s.cfg.Logins == nil:
		return nil, Server{}, v.fault(fault.Unavailable, "cannot be logged in to: there is no place for logins")
	}
	at, err := v.place(ctx)
	if err == nil && v.authorized(at.URL) {
		err = v.fault(fault.Invalid, "needs no login: its headers have an Authorization, or its url a name").WithHint("remove that to log in")
	}
	return v, at, err
}

// challenge asks the server as somebody unknown, for what it says to that; it may
// not mind.
func (v *server) challenge(ctx context.Context, at string) (c oauth.Challenge, asked bool, err error) {
	headers, err := v.resolve(ctx, "header", v.Headers)
	if err != nil {
		return c, false, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, v.StartTimeout, errTimeout)
	defer cancel()
	unknown := &stranger{}
	conn, err := v.dial(ctx, mcp.Address{URL: at, Headers: headers, Tokens: unknown})
	if err == nil {
		_, _, err = conn.session.Tools(ctx, v.Name)
		err = v.word(ctx, conn, "listing its tools", err)
		conn.session.Close()
	}
	c, asked = unknown.challenged()
	return c, asked, err
}

// stranger has no token, and remembers what a server said to that.
type stranger struct {
	mu    sync.Mutex
	asked bool
	heard oauth.Challenge
}

func (s *stranger) challenged() (oauth.Challenge, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard, s.asked
}

// Token implements mcp.Tokens.
func (*stranger) Token(context.Context) (string, error) { return "", nil }

// Renew implements mcp.Tokens.
func (s *stranger) Renew(_ context.Context, _ string, c oauth.Challenge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard, s.asked = c, true
	return fault.New(fault.Denied, "needs a login")
}
