package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

func TestTLS(t *testing.T) {
	c, err := loads(t, "http: {tls: {cert: c.pem, key: /k.pem, client_ca: ca.pem, client_field: san.uri, client_pattern: "+
		"'spiffe://x/(.+)', client_scopes: [execute]}}")
	if err != nil {
		t.Fatal(err)
	}
	got := c.HTTP.TLS
	if filepath.Base(got.Cert) != "c.pem" || !filepath.IsAbs(got.Cert) || got.Key != "/k.pem" || filepath.Base(got.ClientCA) != "ca.pem" ||
		got.ClientField != access.URI ||
		got.ClientPattern == nil || !slices.Equal(got.ClientScopes, []access.Scope{access.Execute}) || !c.HTTP.Authenticated() ||
		c.Admit.PerOwner == 0 {
		t.Errorf("%+v", got)
	}
	plain, err := loads(t, "http: {tls: {cert: c.pem, key: k.pem}}")
	if err != nil || plain.HTTP.Authenticated() || !plain.HTTP.TLS.Enabled() {
		t.Error("TLS is no authentication")
	}
	if c, err := loads(t, "http: {tls: {acme: {hosts: [mcp.example.com], directory: 'https://ca.example/dir', email: a@example.org, ca: "+
		"r.pem}, client_ca: ca.pem, client_field: subject.cn}}"); err != nil || !c.HTTP.TLS.Enabled() {
		t.Error(err)
	}
	const ca = "cert: c.pem, key: k.pem, client_ca: ca.pem"
	for text, want := range map[string]string{
		"cert: c.pem": "no key", "key: k.pem": "no cert", "client_ca: c.pem": "no cert",
		"cert: c.pem, key: k.pem, client_field: subject.cn": "no client_ca",
		"cert: c.pem, key: k.pem, client_optional: true":    "no client_ca",
		ca:                             "no client_field",
		ca + ", client_field: subject": "subject.cn, san.email, san.uri or san.dns",
		ca + ", client_field: subject.cn, client_pattern: a":      "one group",
		ca + ", client_field: subject.cn, client_pattern: '('":    "not a regular expression",
		ca + ", client_field: subject.cn, client_scopes: [all]":   "there is no scope",
		ca + ", client_field: subject.cn, client_scopes: execute": "must be a list",
		ca + ", client_field: subject.cn, client_optional: true":  "no token could identify",
		ca + ", client_field: subject.cn, client_optional: maybe": "true or false",
		"cert: c.pem, key: k.pem, acme: {hosts: [a.example]}":     "acme and a cert or key",
		"acme: {email: a@example.org}":                            "acme has no hosts",
		"acme: {hosts: a.example}":                                "must be a list",
		"acme: {hosts: []}":                                       "1 to 100",
		"acme: {hosts: ['*.example.com']}":                        "without a wildcard",
		"acme: {hosts: [127.0.0.1]}":                              "without a wildcard",
		"acme: {hosts: [a.example], directory: http://x.example}": "the https URL",
		"acme: {hosts: [a.example], client_ca: x}":                "there is no key",
		"cert: '', key: k.pem":                                    "must be a path",
		"cert: c.pem, key: k.pem, clientca: x":                    `did you mean "http.tls.client_ca"?`,
	} {
		_, err := loads(t, "http: {tls: {"+text+"}}")
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
