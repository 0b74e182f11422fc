package config

import (
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// minToken is the minimum length of a token: 16 random characters cannot be guessed.
const minToken = 16

// httpKeys contains the parsers of the limits of HTTP.
var httpKeys = map[string]func(*draft, setting) error{
	"http.connections":               func(d *draft, s setting) error { return whole(&d.HTTP.Connections, s, 1, 1<<20) },
	"http.connections_per_address":   func(d *draft, s setting) error { return whole(&d.HTTP.PerAddress, s, 1, 1<<20) },
	"http.mcp_connections_per_token": func(d *draft, s setting) error { return whole(&d.HTTP.TokenConnections, s, 1, 10_000) },
	"http.requests_per_token":        func(d *draft, s setting) error { return whole(&d.HTTP.TokenRequests, s, 1, 1<<20) },
}

func boolean(to *bool, s setting) error {
	if s.text != "true" && s.text != "false" {
		return wrong(s, "true or false")
	}
	*to = s.text == "true"
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
		return fault.New(fault.Invalid, "%s: %s has %d characters; a token has at least %d, printable and without spaces", s.from, s.key, len(secret), minToken).
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
