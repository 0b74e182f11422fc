package access_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/access/accesstest"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

func newProvider(t *testing.T, cfg access.OIDC) *access.Provider {
	t.Helper()
	p, err := access.NewProvider(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTokenIdentifiesItsTenant(t *testing.T) {
	at := accesstest.Start(t)
	p := newProvider(t, access.OIDC{Issuer: at.URL, Audience: accesstest.Audience, Claim: "customer_uid"})
	for _, uid := range []string{"customer_A", "customer_a", "ada@example.org", "客户"} {
		who, err := p.Verify(t.Context(), at.Token(uid, "execute files other"))
		if err != nil || who.Tenant != parse(t, uid) || !slices.Equal(who.Scopes, []access.Scope{access.Execute, access.Files}) {
			t.Errorf("%s: %+v, %v", uid, who, err)
		}
		if left := time.Until(who.Expires); left < 59*time.Minute || left > 62*time.Minute {
			t.Errorf("it expires in %s", left)
		}
	}
	prefixed := newProvider(t, access.OIDC{Issuer: at.URL, Audience: accesstest.Audience, Prefix: "sandpiper:"})
	who, err := prefixed.Verify(t.Context(), at.Token("a", "execute sandpiper:files"))
	if err != nil || who.Tenant != parse(t, "a") || !slices.Equal(who.Scopes, []access.Scope{access.Files}) {
		t.Errorf("with a prefix: %+v, %v", who, err)
	}
	if n := at.Requests("/keys"); n != 2 {
		t.Errorf("%d requests for keys by two verifiers", n)
	}
}

func TestInvalidTokensAreRefused(t *testing.T) {
	at, other := accesstest.Start(t), accesstest.Start(t)
	p := newProvider(t, access.OIDC{Issuer: at.URL, Audience: accesstest.Audience, Skew: 5 * time.Second})
	good := at.Token("a", "execute")
	if _, err := p.Verify(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	claims, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		t.Fatal(err)
	}
	forged := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(claims), `"sub":"a"`, `"sub":"b"`, 1)))
	symmetric, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat("x", 32))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	hs, err := jwt.Signed(symmetric).Claims(jwt.Claims{Issuer: at.URL, Subject: "a", Audience: jwt.Audience{accesstest.Audience},
		Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"empty": "", "no JWT": "abc", "dots": "..", "huge": strings.Repeat("a.b", 1<<20),
		"another issuer":      other.Token("a", "execute"),
		"another audience":    at.TokenFor("billing", time.Hour, "a", "execute"),
		"expired":             at.TokenFor(accesstest.Audience, -10*time.Second, "a", "execute"),
		"changed subject":     head + "." + forged + "." + signature,
		"no signature":        head + "." + payload + ".",
		"algorithm none":      base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + payload + ".",
		"symmetric algorithm": hs,
		"uid with a slash":    at.Token("../b", "execute"),
		"uid without letters": at.Token("..", "execute"),
	} {
		if who, err := p.Verify(t.Context(), token); !errors.Is(err, access.ErrUnknown) || !who.Tenant.IsZero() {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
	if _, err := p.Verify(t.Context(), at.TokenFor(accesstest.Audience, -2*time.Second, "a", "execute")); err != nil {
		t.Errorf("expired within the skew: %v", err)
	}
	if n := at.Requests("/keys"); n > 2 {
		t.Errorf("%d requests for keys", n)
	}
	absent := newProvider(t, access.OIDC{Issuer: at.URL, Audience: accesstest.Audience, Claim: "tenant"})
	if _, err := absent.Verify(t.Context(), good); !errors.Is(err, access.ErrUnknown) {
		t.Errorf("without the claim: %v", err)
	}
}

// remote is a provider's documents without a network, for simulated time.
type remote struct {
	issuer string

	mu      sync.Mutex
	key     jose.JSONWebKey
	down    bool
	fetched int // requests for keys, answered or not
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	r := &remote{issuer: "https://id.example"}
	r.rotate(t)
	return r
}

// rotate replaces the key.
func (r *remote) rotate(t *testing.T) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key = jose.JSONWebKey{Key: private, KeyID: rand.Text(), Use: "sig", Algorithm: "ES256"}
}

func (r *remote) set(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// token returns a token signed with the current key, or with one that nobody has.
func (r *remote) token(t *testing.T, unknown bool) string {
	t.Helper()
	r.mu.Lock()
	key := r.key
	r.mu.Unlock()
	if unknown {
		key.KeyID = rand.Text()
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": r.issuer, "sub": "a", "aud": accesstest.Audience, "exp": time.Now().Add(24 * time.Hour).Unix(), "scope": "execute",
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := strings.HasSuffix(req.URL.Path, "/keys")
	if keys {
		r.fetched++
	}
	if r.down {
		return nil, errors.New("connection refused")
	}
	var body any = map[string]any{"issuer": r.issuer, "jwks_uri": r.issuer + "/keys"}
	if keys {
		body = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{r.key.Public()}}
	}
	b, err := json.Marshal(body)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(b)), Request: req}, err
}

func (r *remote) provider(t *testing.T) *access.Provider {
	t.Helper()
	return newProvider(t, access.OIDC{Issuer: r.issuer, Audience: accesstest.Audience, Client: &http.Client{Transport: r}})
}

func TestRotatedKeysAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		p := r.provider(t)
		old := r.token(t, false)
		if _, err := p.Verify(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r.rotate(t)
		if _, err := p.Verify(t.Context(), r.token(t, false)); err != nil {
			t.Errorf("a token with the new key: %v", err)
		}
		if _, err := p.Verify(t.Context(), old); !errors.Is(err, access.ErrUnknown) {
			t.Errorf("a token with a withdrawn key: %v", err)
		}
	})
}

func TestWithdrawnKeyIsRefusedWithoutNewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		p := r.provider(t)
		old := r.token(t, false)
		if _, err := p.Verify(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		r.rotate(t)
		time.Sleep(5 * time.Minute)
		if _, err := p.Verify(t.Context(), old); !errors.Is(err, access.ErrUnknown) {
			t.Errorf("a token with a withdrawn key after five minutes: %v", err)
		}
	})
}

func TestTokensWithUnknownKeysCauseFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		p := r.provider(t)
		for range 600 {
			if _, err := p.Verify(t.Context(), r.token(t, true)); !errors.Is(err, access.ErrUnknown) {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if r.fetched > 7 {
			t.Errorf("%d requests for keys in a minute", r.fetched)
		}
		if _, err := p.Verify(t.Context(), r.token(t, false)); err != nil {
			t.Error(err)
		}
	})
}

func TestProviderMayBeDownForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote(t)
		p := r.provider(t)
		token := r.token(t, false)
		r.set(true)
		for range 3 {
			if _, err := p.Verify(t.Context(), token); err == nil || errors.Is(err, access.ErrUnknown) {
				t.Fatalf("before discovery: %v", err)
			}
		}
		r.set(false)
		time.Sleep(10 * time.Second)
		if _, err := p.Verify(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		r.set(true)
		time.Sleep(59 * time.Minute)
		if _, err := p.Verify(t.Context(), token); err != nil {
			t.Errorf("down for 59 minutes: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := p.Verify(t.Context(), token); err == nil || errors.Is(err, access.ErrUnknown) {
			t.Errorf("down for 61 minutes: %v", err)
		}
		r.set(false)
		time.Sleep(10 * time.Second)
		if _, err := p.Verify(t.Context(), token); err != nil {
			t.Errorf("up again: %v", err)
		}
	})
}

func TestNewProviderRejectsUnsafeConfiguration(t *testing.T) {
	for _, cfg := range []access.OIDC{
		{}, {Issuer: "https://id.example"}, {Issuer: "http://id.example", Audience: "a"}, {Issuer: "id.example", Audience: "a"},
		{Issuer: "file:///x", Audience: "a"},
	} {
		if _, err := access.NewProvider(cfg); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}
