package access_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/access/accesstest"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

var clientScopes = []access.Scope{access.Execute}

func TestCertificateIdentifiesItsTenant(t *testing.T) {
	ca := accesstest.NewCA(t, "clients")
	spiffe, err := url.Parse("spiffe://example.org/customer/customer_A")
	if err != nil {
		t.Fatal(err)
	}
	between := ca.Intermediate("between")
	for name, tc := range map[string]struct {
		field   access.Field
		pattern string
		change  func(*x509.Certificate)
		want    string
	}{
		"common name":     {access.CommonName, "", func(c *x509.Certificate) { c.Subject.CommonName = "customer_A" }, "customer_A"},
		"of another case": {access.CommonName, "", func(c *x509.Certificate) { c.Subject.CommonName = "CUSTOMER_a" }, "CUSTOMER_a"},
		"email": {access.Email, "", func(c *x509.Certificate) { c.EmailAddresses = []string{"ada@example.org"} },
			"ada@example.org"},
		"part of an email": {access.Email, `(.+)@example\.org`,
			func(c *x509.Certificate) { c.EmailAddresses = []string{"ada@example.org"} }, "ada"},
		"URI": {access.URI, `spiffe://example\.org/customer/(.+)`, func(c *x509.Certificate) { c.URIs = []*url.URL{spiffe} },
			"customer_A"},
		"one of several": {access.DNS, `(.+)\.customers\.example`,
			func(c *x509.Certificate) { c.DNSNames = []string{"a.customers.example", "host.example"} }, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			c := access.Certificates{Roots: ca.Pool, Field: tc.field, Scopes: clientScopes}
			if tc.pattern != "" {
				if c.Pattern, err = access.ParsePattern(tc.pattern); err != nil {
					t.Fatal(err)
				}
			}
			direct, indirect := ca.Client(tc.change), between.Client(tc.change)
			for _, chain := range [][]*x509.Certificate{{direct.Leaf}, {indirect.Leaf, between.Cert}} {
				who, err := c.Verify(chain)
				if err != nil || who.Tenant != parse(t, tc.want) || !slices.Equal(who.Scopes, clientScopes) ||
					!who.Expires.Equal(chain[0].NotAfter) {
					t.Errorf("%+v, %v", who, err)
				}
			}
		})
	}
}

func TestInvalidCertificatesAreRefused(t *testing.T) {
	ca, other := accesstest.NewCA(t, "clients"), accesstest.NewCA(t, "clients") // of the same name
	between := ca.Intermediate("between")
	named := func(name string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject.CommonName = name }
	}
	twice := pkix.RDNSequence{
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "customer_A"}}, {{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "customer_B"}},
	}
	raw, err := asn1.Marshal(twice)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*x509.Certificate)) []*x509.Certificate {
		return []*x509.Certificate{ca.Client(func(c *x509.Certificate) { c.Subject.CommonName = "customer_A"; change(c) }).Leaf}
	}
	leafOfLeaf := ca.Named("customer_A")
	long := []*x509.Certificate{leafOfLeaf.Leaf}
	for range 8 {
		long = append(long, ca.Intermediate("between").Cert)
	}
	c := access.Certificates{Roots: ca.Pool, Field: access.CommonName, Scopes: clientScopes}
	for name, tc := range map[string]struct {
		chain  []*x509.Certificate
		reason string
	}{
		"none":          {nil, "is required"},
		"of another CA": {[]*x509.Certificate{other.Named("customer_A").Leaf}, "not issued by an accepted CA"},
		"with another CA's chain": {[]*x509.Certificate{other.Named("customer_A").Leaf, other.Cert, ca.Cert},
			"not issued by an accepted CA"},
		"without its intermediate": {[]*x509.Certificate{between.Named("customer_A").Leaf}, "not issued by an accepted CA"},
		"after a valid one":        {[]*x509.Certificate{other.Named("customer_B").Leaf, leafOfLeaf.Leaf}, "not issued by an accepted CA"},
		"with many intermediates":  {long, "too long"},
		"expired":                  {changed(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "has expired"},
		"not valid yet":            {changed(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), "not valid yet"},
		"of the operator":          {[]*x509.Certificate{ca.Client(named("local")).Leaf}, "valid customer uid"},
		"without a usage":          {changed(func(c *x509.Certificate) { c.ExtKeyUsage = nil }), "not for the authentication of clients"},
		"for anything": {changed(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} }),
			"not for the authentication of clients"},
		"with a leading hyphen": {[]*x509.Certificate{ca.Client(named("-tenant")).Leaf}, "valid customer uid"},
		"of a server": {changed(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
			"not for the authentication of clients"},
		"unknown critical": {changed(func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}
		}), "not issued by an accepted CA"},
		"without a name": {[]*x509.Certificate{ca.Client(nil).Leaf}, "exactly one customer"},
		"with a name in a SAN only": {[]*x509.Certificate{ca.Client(func(c *x509.Certificate) { c.DNSNames = []string{"customer_A"} }).
			Leaf}, "exactly one customer"},
		"with two names": {changed(func(c *x509.Certificate) { c.RawSubject = raw }), "exactly one customer"},
		"traversal":      {[]*x509.Certificate{ca.Client(named("../customer_A")).Leaf}, "valid customer uid"},
		"NUL":            {[]*x509.Certificate{ca.Client(named("customer_A\x00.evil")).Leaf}, "valid customer uid"},
		"reserved":       {[]*x509.Certificate{ca.Client(named("con")).Leaf}, "valid customer uid"},
		"huge":           {[]*x509.Certificate{ca.Client(named(strings.Repeat("a", 129))).Leaf}, "valid customer uid"},
	} {
		who, err := c.Verify(tc.chain)
		if !errors.Is(err, access.ErrUnknown) || !who.Tenant.IsZero() || !strings.Contains(fault.Message(err), tc.reason) {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
}

func TestPatternMatchesWholeValues(t *testing.T) {
	ca := accesstest.NewCA(t, "clients")
	pattern, err := access.ParsePattern(`(.+)@example\.org|x`)
	if err != nil {
		t.Fatal(err)
	}
	c := access.Certificates{Roots: ca.Pool, Field: access.Email, Pattern: pattern, Scopes: clientScopes}
	for _, addresses := range [][]string{
		{"ada@example.org.evil.example"}, {"ada@exampleXorg"}, {"x"}, {"@example.org"}, {"ada@example.org", "bob@example.org"},
		{"ada@example.org", "ada@example.org"},
	} {
		leaf := ca.Client(func(c *x509.Certificate) { c.EmailAddresses = addresses }).Leaf
		if who, err := c.Verify([]*x509.Certificate{leaf}); !errors.Is(err, access.ErrUnknown) {
			t.Errorf("%q: %+v, %v", addresses, who, err)
		}
	}
	for _, text := range []string{"", "abc", "(a)(b)", "(", "a)|(b", "(?:a)"} {
		if _, err := access.ParsePattern(text); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestBothCredentialsMustAgree(t *testing.T) {
	soon, late := time.Now().Add(time.Minute), time.Now().Add(time.Hour)
	a := access.Identity{Tenant: parse(t, "a"), Scopes: []access.Scope{access.Execute, access.Files}, Expires: late}
	for _, expires := range []time.Time{soon, {}} {
		b := access.Identity{Tenant: parse(t, "a"), Scopes: []access.Scope{access.Files, access.Admin}, Expires: expires}
		want := late
		if expires == soon {
			want = soon
		}
		for _, pair := range [][2]access.Identity{{a, b}, {b, a}} {
			both, err := access.Both(pair[0], pair[1])
			if err != nil || both.Tenant != a.Tenant || !slices.Equal(both.Scopes, []access.Scope{access.Files}) ||
				!both.Expires.Equal(want) {
				t.Errorf("%+v, %v", both, err)
			}
		}
	}
	if who, err := access.Both(a, access.Identity{Tenant: parse(t, "A"), Scopes: a.Scopes}); !errors.Is(err, access.ErrUnknown) ||
		!who.Tenant.IsZero() {
		t.Errorf("%+v, %v", who, err)
	}
}
