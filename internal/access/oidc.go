package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// OIDC configures the acceptance of an OpenID provider's access tokens. They must be JWTs.
type OIDC struct {
	Issuer   string        // URL of the provider; https, or http on a loopback address. Required
	Audience string        // that tokens must contain. Required
	Claim    string        // name of the string claim with the customer uid; "" means sub
	Prefix   string        // of this server's scopes in tokens, such as "sandpiper:"
	Skew     time.Duration // difference between the clocks that is tolerated; 0 means 30 s
	Client   *http.Client  // for discovery and keys; nil means one with a timeout of 10 s
}

// maxToken limits the size of a token.
const maxToken = 16 << 10

// Provider verifies the tokens of one OpenID provider. It discovers the provider when it verifies
// the first token, so that a daemon starts while its provider is down.
type Provider struct {
	cfg OIDC

	mu       sync.Mutex
	tried    time.Time             // last failed discovery
	verifier *oidc.IDTokenVerifier // nil until discovery succeeded, then constant
	keys     *keySet               // likewise
}

// NewProvider checks cfg and returns a Provider. It does no I/O.
func NewProvider(cfg OIDC) (*Provider, error) {
	u, err := url.Parse(cfg.Issuer)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return nil, fault.New(fault.Invalid, "the issuer %.200q is not an https URL", cfg.Issuer)
	}
	if cfg.Audience == "" {
		return nil, fault.New(fault.Invalid, "the audience of tokens is missing").
			WithHint("without it, tokens that the provider issued for other services would be accepted")
	}
	if cfg.Claim == "" {
		cfg.Claim = "sub"
	}
	if cfg.Skew == 0 {
		cfg.Skew = 30 * time.Second
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: 10 * time.Second}
	}
	return &Provider{cfg: cfg}, nil
}

func isLoopback(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// Issuer returns the URL of the provider.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// Verify returns the identity of a token. It returns ErrUnknown for a token that is not valid, and
// another error if the provider cannot be reached.
func (p *Provider) Verify(ctx context.Context, token string) (Identity, error) {
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return Identity{}, unknown("it is not a JWT of at most %d bytes", maxToken)
	}
	if err := p.discover(ctx); err != nil {
		return Identity{}, err
	}
	if _, err := p.keys.current(ctx, freshKeys); err != nil { // the verifier hides which error it is
		return Identity{}, err
	}
	t, err := p.verifier.Verify(ctx, token)
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); expired {
		return Identity{}, refuse("the token has expired")
	}
	if err != nil {
		return Identity{}, unknown("%w", err)
	}
	return p.identify(t)
}

// identify reads the tenant and the scopes from the claims of a verified token.
func (p *Provider) identify(t *oidc.IDToken) (Identity, error) {
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return Identity{}, unknown("its claims: %w", err)
	}
	var uid string
	if json.Unmarshal(claims[p.cfg.Claim], &uid) != nil {
		return Identity{}, unknown("it has no text in the claim %s", p.cfg.Claim)
	}
	id, err := tenant.Parse(uid)
	if err != nil {
		return Identity{}, unknown("claim %s: %w", p.cfg.Claim, err)
	}
	who := Identity{Tenant: id, Expires: t.Expiry.Add(p.cfg.Skew)}
	for _, s := range Scopes {
		if slices.Contains(scopesOf(claims), p.cfg.Prefix+string(s)) {
			who.Scopes = append(who.Scopes, s)
		}
	}
	return who, nil
}

// scopesOf returns the scopes of a token: the claim scope, separated by spaces (RFC 9068), or scp,
// which some providers use, as a list or separated by spaces.
func scopesOf(claims map[string]json.RawMessage) (all []string) {
	for _, name := range []string{"scope", "scp"} {
		var text string
		var list []string
		if json.Unmarshal(claims[name], &text) == nil {
			list = strings.Fields(text)
		} else if json.Unmarshal(claims[name], &list) != nil {
			continue
		}
		all = append(all, list...)
	}
	return all
}

// retry is the least time between two requests to a provider that failed, or whose keys do not
// include the key of a token.
const retry = 10 * time.Second

// errUnreachable is returned while the provider cannot be reached.
var errUnreachable = errors.New("the OpenID provider cannot be reached")

// discover reads the provider's configuration, once.
func (p *Provider) discover(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.verifier != nil {
		return nil
	}
	if time.Since(p.tried) < retry {
		return errUnreachable
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.cfg.Client), p.cfg.Issuer)
	var found struct {
		Keys string `json:"jwks_uri"`
	}
	if err == nil {
		err = provider.Claims(&found)
	}
	if err != nil {
		p.tried = time.Now()
		return fmt.Errorf("%w: discover %s: %w", errUnreachable, p.cfg.Issuer, err)
	}
	p.keys = &keySet{url: found.Keys, client: p.cfg.Client}
	p.verifier = oidc.NewVerifier(p.cfg.Issuer, p.keys, &oidc.Config{
		ClientID:             p.cfg.Audience,
		SupportedSigningAlgs: algorithmNames(), // whatever the provider's document says
		Now:                  func() time.Time { return time.Now().Add(-p.cfg.Skew) },
	})
	return nil
}
