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
)

// Machine obtains tokens with the client's own credentials, without a person.
type Machine struct {
	cfg  Config
	turn turn // held by who asks for a token

	mu      sync.Mutex
	held    *oauth2.Token // nil if there is none yet
	given   time.Time     // when it came
	until   time.Time     // it is not replaced before, while it is good
	scopes  []string      // of it
	place   place         // where it came from
	useless useless
}

// NewMachine returns the Machine for a server. Nothing is asked yet.
func NewMachine(cfg Config) *Machine { return &Machine{cfg: cfg.withDefaults(), turn: make(turn, 1)} }

// Token is the token to send, "" if there is none.
func (m *Machine) Token(ctx context.Context) (string, error) {
	held := m.now()
	if held == nil {
		return "", nil
	}
	if !m.ends() {
		return held.AccessToken, nil
	}
	err := m.obtain(ctx, held.AccessToken, Challenge{})
	switch {
	case err != nil && time.Now().After(held.Expiry):
		return "", err
	case err != nil:
		m.wait()
	}
	return m.now().AccessToken, nil
}

// Renew deals with a token that the server refused, "" if none was sent. Without
// an error there is another one now.
func (m *Machine) Renew(ctx context.Context, refused string, c Challenge) error {
	held := m.now()
	if held != nil && held.AccessToken != refused {
		return nil
	}
	if m.useless.refuses(refused, c.Again && !(c.More && m.lacks(c.Scopes))) {
		return fault.New(fault.Denied, "refuses a token that was just given").WithHint("check client_id and scopes in its oauth")
	}
	return m.obtain(ctx, refused, c)
}

func (m *Machine) now() *oauth2.Token {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// ends tells whether the token is to be replaced.
func (m *Machine) ends() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return ending(m.given, m.held.Expiry) && (time.Now().After(m.until) || time.Now().After(m.held.Expiry))
}

// wait lets the token be used for a while though it could not be replaced.
func (m *Machine) wait() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = time.Now().Add(pause)
}

// lacks tells whether some of the rights were not given yet.
func (m *Machine) lacks(scopes []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(m.scopes, s) })
}

// obtain replaces a token. Whoever comes second finds that it was done.
func (m *Machine) obtain(ctx context.Context, used string, c Challenge) error {
	release, err := m.turn.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	if held := m.now(); held != nil && held.AccessToken != used {
		return nil
	}
	p := m.place
	if held := m.now(); held == nil || !m.ends() { // the server may have moved to another
		if p, err = m.cfg.find(ctx, c); err != nil {
			return err
		}
	}
	asked := m.cfg.scopes(c, m.scopes, p)
	got, err := m.request(ctx, p, asked)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.given, m.scopes, m.place = got, time.Now(), granted(got, asked), p
	return nil
}

func (m *Machine) request(ctx context.Context, p place, scopes []string) (*oauth2.Token, error) {
	params := url.Values{"resource": {p.resource}}
	if len(scopes) > 0 {
		params.Set("scope", strings.Join(scopes, " "))
	}
	got, err := m.cfg.token(ctx, p.Issuer, p.Token, m.cfg.Client.configured(p.metadata), params)
	switch _, refuses := errors.AsType[*refusal](err); {
	case refuses:
		return nil, fault.New(fault.Denied, "has the authorization server %s, which gives no token: %s", host(p.Issuer), why(err)).
			WithHint("check client_id, client_secret or private_key, and scopes in its oauth")
	case err != nil:
		return nil, unavailable(p.Issuer, err)
	}
	return got, nil
}
