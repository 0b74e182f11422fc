// Package accesstest runs an OpenID provider for tests: zitadel's, with clients in memory. Its
// clients get tokens by the grant client_credentials.
package accesstest

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Audience is the audience of tokens that are not requested for another.
const Audience = "sandpiper"

// Provider is a running OpenID provider.
type Provider struct {
	URL string // the issuer

	t      testing.TB
	server *httptest.Server

	mu       sync.Mutex
	keys     []*key // the last one signs
	lifetime time.Duration
	audience string
	hits     map[string]int
}

// Start starts a provider, which ends with the test.
func Start(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{t: t, lifetime: time.Hour, audience: Audience, hits: map[string]int{}}
	p.Rotate()
	p.server = httptest.NewUnstartedServer(nil)
	p.URL = "http://" + p.server.Listener.Addr().String()
	provider, err := op.NewProvider(&op.Config{}, storage{p: p}, op.StaticIssuer(p.URL), op.WithAllowInsecure(),
		op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	p.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.hits[r.URL.Path]++
		p.mu.Unlock()
		provider.ServeHTTP(w, r)
	})
	p.server.Start()
	t.Cleanup(p.server.Close)
	return p
}

// Stop makes the provider unreachable.
func (p *Provider) Stop() { p.server.Close() }

// Requests returns the number of requests for a path, such as "/keys".
func (p *Provider) Requests(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits[path]
}

// Rotate replaces the key. Tokens signed with earlier ones become invalid.
func (p *Provider) Rotate() {
	p.t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = []*key{{id: rand.Text(), private: private}}
}

// Token returns an access token with the customer uid and scopes, separated by spaces.
func (p *Provider) Token(uid, scopes string) string {
	p.t.Helper()
	return p.TokenFor(Audience, time.Hour, uid, scopes)
}

// TokenFor is Token with an audience and a lifetime, which may be negative.
func (p *Provider) TokenFor(audience string, lifetime time.Duration, uid, scopes string) string {
	p.t.Helper()
	p.mu.Lock()
	p.audience, p.lifetime = audience, lifetime
	p.mu.Unlock()
	res, err := http.PostForm(p.URL+"/oauth/token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {uid}, "client_secret": {"secret"}, "scope": {scopes},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(b, &answer); err != nil || answer.Token == "" {
		p.t.Fatalf("%s: %s %v", res.Status, b, err)
	}
	return answer.Token
}

// key is a signing key; it implements op.SigningKey and op.Key.
type key struct {
	id      string
	private *rsa.PrivateKey
}

func (k *key) ID() string                                  { return k.id }
func (k *key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k *key) Key() any                                    { return k.private }

type publicKey struct{ *key }

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return &k.private.PublicKey }

// storage implements what the grant needs; other methods are nil.
type storage struct {
	op.Storage
	p *Provider
}

func (s storage) Health(context.Context) error { return nil }

func (s storage) SigningKey(context.Context) (op.SigningKey, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.p.keys[len(s.p.keys)-1], nil
}

func (s storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

func (s storage) KeySet(context.Context) (all []op.Key, err error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	for _, k := range s.p.keys {
		all = append(all, publicKey{k})
	}
	return all, nil
}

func (s storage) ClientCredentials(_ context.Context, id, secret string) (op.Client, error) {
	if secret != "secret" {
		return nil, errors.New("wrong secret")
	}
	return client{id: id}, nil
}

func (s storage) ClientCredentialsTokenRequest(_ context.Context, id string, scopes []string) (op.TokenRequest, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return &oidc.JWTTokenRequest{Subject: id, Audience: []string{s.p.audience}, Scopes: scopes}, nil
}

func (s storage) CreateAccessToken(context.Context, op.TokenRequest) (string, time.Time, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return rand.Text(), time.Now().Add(s.p.lifetime), nil
}

func (s storage) GetPrivateClaimsFromScopes(_ context.Context, user, _ string, scopes []string) (map[string]any, error) {
	return map[string]any{"customer_uid": user, "scope": strings.Join(scopes, " ")}, nil
}

// client is any client: its id is its subject and customer uid.
type client struct {
	op.Client
	id string
}

func (c client) GetID() string                       { return c.id }
func (c client) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (c client) ClockSkew() time.Duration            { return 0 }
func (c client) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeClientCredentials}
}
func (c client) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}
