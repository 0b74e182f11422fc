package config

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// minToken is the minimum length of a token: 16 random characters cannot be guessed.
const minToken = 16

// httpKeys are the keys of the limits and logins of HTTP.
var httpKeys = map[string]key{
	"http.token": {read: func(d *draft, s setting) error { return token(d, s, tenant.Local) }},
	"http.tls.acme.hosts": {read: func(d *draft, s setting) error { return acmeDomains(&d.HTTP.TLS.ACME.Domains, s) },
		structured: true},
	"http.tls.acme.directory": {read: func(d *draft, s setting) error { return acmeDirectory(&d.HTTP.TLS.ACME.Directory, s) }},
	"http.tls.client_field":   {read: func(d *draft, s setting) error { return clientField(&d.HTTP.TLS.ClientField, s) }},
	"http.tls.client_pattern": {read: func(d *draft, s setting) error { return clientPattern(&d.HTTP.TLS.ClientPattern, s) }},
	"http.tls.client_scopes":  {read: func(d *draft, s setting) error { return scopes(&d.HTTP.TLS.ClientScopes, s) }, structured: true},
}

// OIDC configures an OpenID provider whose tokens are accepted.
type OIDC struct {
	Issuer   string        `key:"issuer"`       // "" means none
	Resource string        `key:"resource"`     // URL of this server's /mcp, as clients know it
	Audience string        `key:"audience"`     // that tokens must contain; "" means Resource
	Claim    string        `key:"claim"`        // with the customer uid; "" means sub
	Prefix   string        `key:"scope_prefix"` // of scopes in tokens
	Skew     time.Duration `key:"skew"`         // 0 means the default of access
}

// Authenticated reports whether requests need a token or a client certificate.
func (h HTTP) Authenticated() bool { return len(h.Tokens) > 0 || h.manyTenants() }

// manyTenants reports whether requests may be of tenants that the configuration does not name.
func (h HTTP) manyTenants() bool { return h.Keys || h.OIDC.Issuer != "" || h.TLS.ClientCA != "" }

// complete rejects an incomplete configuration of a provider, and sets the audience.
func (o *OIDC) complete(given givenKeys) error {
	if *o == (OIDC{}) {
		return nil
	}
	at, _ := given.section("http.oidc")
	if o.Issuer == "" {
		return fault.New(fault.Invalid, "%s has no issuer", at).WithHint("set http.oidc.issuer to the URL of the OpenID provider")
	}
	u, err := url.Parse(o.Resource)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Fragment != "" {
		return fault.New(fault.Invalid, "%s: resource is %q; it must be the URL at which clients reach this server, such as "+
			"https://mcp.example.com/mcp", at, o.Resource)
	}
	o.Audience = cmp.Or(o.Audience, o.Resource)
	if _, err := access.NewProvider(access.OIDC{Issuer: o.Issuer, Audience: o.Audience}); err != nil {
		return fault.New(fault.Invalid, "%s: %s", at, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return nil
}

func tokenOf(d *draft, s setting, name string) error {
	id, err := tenant.Parse(name)
	if err != nil {
		return fault.New(fault.Invalid, "%s: %s: %s", s.from, s.key, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return token(d, s, id)
}

// token sets the token of a tenant, replacing an earlier one. Its errors do not contain
// the token.
func token(d *draft, s setting, id tenant.ID) error {
	secret, err := d.secret(s)
	if err != nil {
		return err
	}
	if len(secret) < minToken || strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fault.New(fault.Invalid, "%s: %s has %d characters; a token has at least %d, printable and without spaces", s.from, s.key,
			len(secret), minToken).
			WithHint("openssl rand -hex 32 makes one")
	}
	for _, other := range d.HTTP.Tokens {
		if other.Secret == secret && other.Tenant != id {
			return fault.New(fault.Invalid, "%s: %s is the token of %s too; each needs its own", s.from, s.key, other.Tenant)
		}
	}
	d.HTTP.Tokens = slices.DeleteFunc(d.HTTP.Tokens, func(t Token) bool { return t.Tenant == id })
	d.HTTP.Tokens = append(d.HTTP.Tokens, Token{secret, id})
	return nil
}

// secret returns the text of a setting, or the value of the variable in ${NAME}.
func (d *draft) secret(s setting) (string, error) {
	name, named := strings.CutPrefix(s.text, "${")
	if !named || !strings.HasSuffix(name, "}") {
		return s.text, nil
	}
	name = strings.TrimSuffix(name, "}")
	if d.env[name] == "" {
		return "", fault.New(fault.Invalid, "%s: %s is taken from the variable %s, which is not set", s.from, s.key, name)
	}
	return d.env[name], nil
}
