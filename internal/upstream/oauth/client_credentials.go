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
type ClientCredentials struct {
	cfg   Config
	mutex ctxMutex // held by who asks for a token

	mu         sync.Mutex
	token      *oauth2.Token // nil if there is none yet
	obtainedAt time.Time     // when it came
	retryAt    time.Time     // it is not replaced before, while it is good
	scopes     []string      // of it
	server     authServer    // where it came from
	rejected   rejectedToken
}

// NewMachine returns the Machine for a server. Nothing is asked yet.
func NewClientCredentials(cfg Config) *ClientCredentials {
	return &ClientCredentials{cfg: cfg.withDefaults(), mutex: make(ctxMutex, 1)}
}

// Token is the token to send, "" if there is none.
func (m *ClientCredentials) Token(ctx context.Context) (string, error) {
	held := m.current()
	if held == nil {
		return "", nil
	}
	if !m.needsRenewal() {
		return held.AccessToken, nil
	}
	err := m.obtain(ctx, held.AccessToken, Challenge{})
	switch {
	case err != nil && time.Now().After(held.Expiry):
		return "", err
	case err != nil:
		m.postpone()
	}
	return m.current().AccessToken, nil
}

// Renew deals with a token that the server refused, "" if none was sent. Without
// an error there is another one now.
func (m *ClientCredentials) Renew(ctx context.Context, refused string, c Challenge) error {
	held := m.current()
	if held != nil && held.AccessToken != refused {
		return nil
	}
	if m.rejected.recentlyRejected(refused, c.AfterRenewal && !(c.InsufficientScope && m.lacksScope(c.Scopes))) {
		return fault.New(fault.Denied, "refuses a token that was just given").WithHint("check client_id and scopes in its oauth")
	}
	return m.obtain(ctx, refused, c)
}

func (m *ClientCredentials) current() *oauth2.Token {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.token
}

// ends tells whether the token is to be replaced.
func (m *ClientCredentials) needsRenewal() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return needsRenewal(m.obtainedAt, m.token.Expiry) && (time.Now().After(m.retryAt) || time.Now().After(m.token.Expiry))
}

// wait lets the token be used for a while though it could not be replaced.
func (m *ClientCredentials) postpone() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retryAt = time.Now().Add(renewRetryDelay)
}

// lacks tells whether some of the rights were not given yet.
func (m *ClientCredentials) lacksScope(scopes []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(m.scopes, s) })
}

// obtain replaces a token. Whoever comes second finds that it was done.
func (m *ClientCredentials) obtain(ctx context.Context, used string, c Challenge) error {
	release, err := m.mutex.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if held := m.current(); held != nil && held.AccessToken != used {
		return nil
	}
	p := m.server
	if held := m.current(); held == nil || !m.needsRenewal() { // the server may have moved to another
		if p, err = m.cfg.discover(ctx, c); err != nil {
			return err
		}
	}
	asked := m.cfg.requestedScopes(c, m.scopes, p)
	got, err := m.request(ctx, p, asked)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.token, m.obtainedAt, m.scopes, m.server = got, time.Now(), grantedScopes(got, asked), p
	return nil
}

func (m *ClientCredentials) request(ctx context.Context, p authServer, scopes []string) (*oauth2.Token, error) {
	params := url.Values{"resource": {p.resource}}
	if len(scopes) > 0 {
		params.Set("scope", strings.Join(scopes, " "))
	}
	got, err := m.cfg.requestToken(ctx, p.Issuer, p.Token, m.cfg.Client.identity(p.metadata), params)
	switch _, refuses := errors.AsType[*oauthError](err); {
	case refuses:
		return nil, fault.New(fault.Denied, "has the authorization server %s, which gives no token: %s", issuerHost(p.Issuer), reason(err)).
			WithHint("check client_id, client_secret or private_key, and scopes in its oauth")
	case err != nil:
		return nil, serverUnavailable(p.Issuer, err)
	}
	return got, nil
}
