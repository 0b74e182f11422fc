package config

import (
	"net/url"
	"regexp"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// TLS configures the encryption of connections of clients, and client certificates.
type TLS struct {
	Cert string `key:"cert" form:"path"` // absolute path of a PEM file; "" means ACME or plain HTTP
	Key  string `key:"key" form:"path"`  // absolute path of the PEM file of its key
	ACME ACME   `key:"acme"`             // instead of files

	ClientCA       string         `key:"client_ca" form:"path"` // absolute path of the CAs of clients; "" means no client certificates
	ClientField    access.Field   // with the customer uid
	ClientPattern  *regexp.Regexp // of the field's value; nil means that the value is the uid
	ClientScopes   []access.Scope // nil means those of a token in the configuration
	ClientOptional bool           `key:"client_optional"` // accept requests with a token and without a certificate
}

// ACME configures a CA that issues the certificates of the server.
type ACME struct {
	Domains   []string // none means no ACME
	Directory string   // URL of the CA; "" means Let's Encrypt
	Email     string   `key:"email"` // of the account
	// absolute path of the CAs that the server of Directory is verified with; "" means the system's
	CA string `key:"ca" form:"path"`
}

// Enabled reports whether connections are encrypted.
func (t TLS) Enabled() bool { return t.Cert != "" || len(t.ACME.Domains) > 0 }

var domainName = lazyregexp.New(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])$`)

func acmeDomains(to *[]string, s setting) error {
	const what = "a domain in lower case, such as mcp.example.com, without a wildcard"
	if err := names(to, s, what); err != nil {
		return err
	}
	for _, name := range *to {
		if len(name) > 253 || !domainName().MatchString(name) {
			return fault.New(fault.Invalid, "%s: %s contains %.60q; each item must be %s", s.from, s.key, name, what)
		}
	}
	if len(*to) == 0 || len(*to) > 100 {
		return fault.New(fault.Invalid, "%s: %s has %d domains; it must have 1 to 100", s.from, s.key, len(*to))
	}
	return nil
}

func acmeDirectory(to *string, s setting) error {
	u, err := url.Parse(s.text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return wrong(s, "the https URL of an ACME directory")
	}
	*to = s.text
	return nil
}

func clientField(to *access.Field, s setting) error {
	return oneOf((*string)(to), s, string(access.CommonName), string(access.Email), string(access.URI), string(access.DNS))
}

func clientPattern(to **regexp.Regexp, s setting) (err error) {
	if *to, err = access.ParsePattern(s.text); err != nil {
		return fault.New(fault.Invalid, "%s: %s: %s", s.from, s.key, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return nil
}

func scopes(to *[]access.Scope, s setting) error {
	var all []string
	if err := names(&all, s, "a scope, such as execute or files"); err != nil {
		return err
	}
	*to = []access.Scope{}
	for _, name := range all {
		scope, err := access.ParseScope(name)
		if err != nil {
			return fault.New(fault.Invalid, "%s: %s: %s", s.from, s.key, fault.Message(err))
		}
		*to = append(*to, scope)
	}
	return nil
}

// checkTLS rejects an incomplete configuration of TLS.
func (h HTTP) checkTLS(keys givenKeys) error {
	t := h.TLS
	at, given := keys.section("http.tls")
	client := t.ClientField != "" || t.ClientPattern != nil || t.ClientScopes != nil || t.ClientOptional
	switch {
	case !given:
	case len(t.ACME.Domains) > 0 && (t.Cert != "" || t.Key != ""):
		return fault.New(fault.Invalid, "%s has acme and a cert or key", at).
			WithHint("remove http.tls.acme, or http.tls.cert and http.tls.key")
	case len(t.ACME.Domains) == 0 && (t.ACME.Directory != "" || t.ACME.Email != "" || t.ACME.CA != ""):
		return fault.New(fault.Invalid, "%s.acme has no hosts", at).WithHint("set http.tls.acme.hosts to the names of this server")
	case !t.Enabled():
		return fault.New(fault.Invalid, "%s has no cert", at).
			WithHint("set http.tls.cert and http.tls.key to files in PEM, or http.tls.acme.hosts")
	case t.Cert != "" && t.Key == "":
		return fault.New(fault.Invalid, "%s has a cert and no key", at).WithHint("set http.tls.key to the file of the private key, in PEM")
	case t.ClientCA == "" && client:
		return fault.New(fault.Invalid, "%s has settings of client certificates and no client_ca", at).
			WithHint("set http.tls.client_ca to the file of the CAs that issue the certificates of clients")
	case t.ClientCA != "" && t.ClientField == "":
		return fault.New(fault.Invalid, "%s has a client_ca and no client_field", at).
			WithHint("set http.tls.client_field to the field that contains the customer uid: subject.cn, san.email, san.uri or san.dns")
	case t.ClientOptional && len(h.Tokens) == 0 && !h.Keys && h.OIDC.Issuer == "":
		return fault.New(fault.Invalid, "%s has client_optional, but no token could identify a client without a certificate", at).
			WithHint("remove client_optional, or set http.tokens, http.api_keys or http.oidc")
	}
	return nil
}
