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

// ClientCredentials obtains tokens with the client's own credentials, without a person.
type ClientCredentials struct {
	cfg   Config
	mutex ctxMutex // held during a token request

	mu         sync.Mutex
	token      *oauth2.Token // nil before the first request
	obtainedAt time.Time     // when token was obtained
	retryAt    time.Time     // earliest next renewal while token is valid
	scopes     []string      // of token
	server     authServer    // that issued token
	rejected   rejectedToken
}

// NewClientCredentials returns a token source for a server. It sends no request.
func NewClientCredentials(cfg Config) *ClientCredentials {
	return &ClientCredentials{cfg: cfg.withDefaults(), mutex: make(ctxMutex, 1)}
}

// Token returns the token to send, "" if there is none.
func (m *ClientCredentials) Token(ctx context.Context) (string, error) {
	token := m.current()
	if token == nil {
		return "", nil
	}
	if !m.needsRenewal() {
		return token.AccessToken, nil
	}
	err := m.obtain(ctx, token.AccessToken, Challenge{})
	switch {
	case err != nil && time.Now().After(token.Expiry):
		return "", err
	case err != nil:
		m.postpone()
	}
	return m.current().AccessToken, nil
}

// Renew replaces a token that the server rejected, "" if none was sent. On success,
// another token is available.
func (m *ClientCredentials) Renew(ctx context.Context, refused string, c Challenge) error {
	token := m.current()
	if token != nil && token.AccessToken != refused {
		return nil
	}
	if m.rejected.recentlyRejected(refused, c.AfterRenewal && !(c.InsufficientScope && m.lacksScope(c.Scopes))) {
		return fault.New(fault.Denied, "rejects a new token").WithHint("check client_id and scopes in its oauth")
	}
	return m.obtain(ctx, refused, c)
}

func (m *ClientCredentials) current() *oauth2.Token {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.token
}

// needsRenewal reports whether the token should be replaced.
func (m *ClientCredentials) needsRenewal() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return needsRenewal(m.obtainedAt, m.token.Expiry) && (time.Now().After(m.retryAt) || time.Now().After(m.token.Expiry))
}

// postpone delays the next renewal after a failed one.
func (m *ClientCredentials) postpone() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retryAt = time.Now().Add(renewRetryDelay)
}

// lacksScope reports whether a scope was not granted.
func (m *ClientCredentials) lacksScope(scopes []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(m.scopes, s) })
}

// obtain replaces a token, unless a concurrent call has done so.
func (m *ClientCredentials) obtain(ctx context.Context, used string, c Challenge) error {
	release, err := m.mutex.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if token := m.current(); token != nil && token.AccessToken != used {
		return nil
	}
	p := m.server
	if token := m.current(); token == nil || !m.needsRenewal() { // the server may have moved to another authorization server
		if p, err = m.cfg.discover(ctx, c); err != nil {
			return err
		}
	}
	asked := m.cfg.Client.requestedScopes(c, m.scopes, p)
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
		return nil, fault.New(fault.Denied, "uses the authorization server %s, which issued no token: %s", issuerOrigin(p.Issuer),
			reason(err)).
			WithHint("check client_id, client_secret or private_key, and scopes in its oauth")
	case err != nil:
		return nil, serverUnavailable(p.Issuer, err)
	}
	return got, nil
}
