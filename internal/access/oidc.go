package access

import (
	"context"
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

	mu    sync.Mutex
	tried time.Time // last failed discovery
	keys  *keySet   // nil until discovery succeeded, then constant
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
	if _, err := p.keys.current(ctx, freshKeys); err != nil { // not an error of the token
		return Identity{}, err
	}
	payload, err := p.keys.VerifySignature(ctx, token)
	if err != nil {
		return Identity{}, unknown("%w", err)
	}
	claims, err := parseClaims(payload)
	if err != nil {
		return Identity{}, unknown("its claims: %w", err)
	}
	if err := checkType(token, claims); err != nil {
		return Identity{}, err
	}
	return p.identify(claims)
}

// identify checks the claims of a token with a valid signature, and reads the tenant and the scopes.
func (p *Provider) identify(claims claims) (Identity, error) {
	now := time.Now()
	expires, err := claims.time("exp")
	if err != nil {
		return Identity{}, err
	}
	if issuer := claims.text("iss"); issuer != p.cfg.Issuer {
		return Identity{}, unknown("expected issuer %q, got %q", p.cfg.Issuer, issuer)
	}
	if audience := claims.list("aud"); !slices.Contains(audience, p.cfg.Audience) {
		return Identity{}, unknown("expected audience %q, got %q", p.cfg.Audience, audience)
	}
	if expires = expires.Add(p.cfg.Skew); expires.Before(now) {
		return Identity{}, refuse("the token has expired")
	}
	if _, ok := claims["nbf"]; ok {
		if begins, err := claims.time("nbf"); err != nil {
			return Identity{}, err
		} else if begins.After(now.Add(p.cfg.Skew)) {
			return Identity{}, refuse("the token is not valid yet")
		}
	}
	id, err := identified(claims.text(p.cfg.Claim))
	if err != nil {
		return Identity{}, unknown("claim %s: %w", p.cfg.Claim, err)
	}
	who := Identity{Tenant: id, Expires: expires}
	for _, s := range Scopes {
		if slices.Contains(scopesOf(claims), p.cfg.Prefix+string(s)) {
			who.Scopes = append(who.Scopes, s)
		}
	}
	return who, nil
}

// scopesOf returns the scopes of a token: the claim scope, separated by spaces (RFC 9068), or scp,
// which some providers use, as a list or separated by spaces.
func scopesOf(c claims) (all []string) {
	for _, name := range []string{"scope", "scp"} {
		if text := c.text(name); text != "" {
			all = append(all, strings.Fields(text)...)
		} else {
			all = append(all, c.list(name)...)
		}
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
	if p.keys != nil {
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
	return nil
}
