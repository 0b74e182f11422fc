package access

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"regexp"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Credentials are the token and the certificates of a request.
type Credentials struct {
	Token string // "" means none
	// Chain is the certificate with which the client authenticated its connection, followed by
	// intermediate ones. TLS has verified that the client has the key of the first, and nothing else.
	Chain []*x509.Certificate
}

// Field is a field of a certificate.
type Field string

// The fields that can identify a tenant.
const (
	CommonName Field = "subject.cn"
	Email      Field = "san.email"
	URI        Field = "san.uri"
	DNS        Field = "san.dns"
)

// Fields are all fields.
var Fields = []Field{CommonName, Email, URI, DNS}

// Certificates identifies callers by client certificates.
type Certificates struct {
	Roots   func() *x509.CertPool // of the accepted CAs; required
	Field   Field                 // that contains the customer uid; required
	Pattern *regexp.Regexp        // as ParsePattern returns it; nil means that the whole value is the uid
	Scopes  []Scope               // of all callers
}

// ParsePattern returns a pattern that matches whole values and whose only group is the uid.
func ParsePattern(text string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(text); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "%.200q is not a regular expression", text)
	}
	p, err := regexp.Compile(`^(?:` + text + `)$`)
	if err != nil || p.NumSubexp() != 1 {
		return nil, fault.New(fault.Invalid, "the pattern %.200q must have one group, which contains the customer uid", text).
			WithHint(`such as spiffe://example\.com/customer/(.+)`)
	}
	return p, nil
}

// maxChain limits the certificates that a client sends. Each costs a signature check per request, also
// of clients whose certificate is refused.
const maxChain = 8

// Verify returns the identity of a certificate, or an error that is ErrUnknown and states the
// reason. The reason describes the client's own certificate only.
func (c *Certificates) Verify(chain []*x509.Certificate) (Identity, error) {
	switch {
	case len(chain) == 0:
		return Identity{}, refuse("a client certificate is required")
	case len(chain) > maxChain:
		return Identity{}, refuse("the chain of the client certificate is too long")
	}
	leaf, between := chain[0], x509.NewCertPool()
	for _, other := range chain[1:] {
		between.AddCert(other)
	}
	if !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) { // Verify accepts one without usages
		return Identity{}, refuse(notForClients)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: c.Roots(), Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return Identity{}, refuse(reasonOf(err, leaf))
	}
	var found []string
	for _, value := range c.values(leaf) {
		if c.Pattern == nil {
			found = append(found, value)
		} else if m := c.Pattern.FindStringSubmatch(value); m != nil {
			found = append(found, m[1])
		}
	}
	if len(found) != 1 {
		return Identity{}, refuse("the client certificate does not identify exactly one customer")
	}
	id, err := identified(found[0])
	if err != nil {
		return Identity{}, refuse("the client certificate does not contain a valid customer uid")
	}
	return Identity{Tenant: id, Scopes: c.Scopes, Expires: leaf.NotAfter}, nil
}

// commonName is the identifier of the attribute CN.
var commonName = asn1.ObjectIdentifier{2, 5, 4, 3}

// values returns all values of the field.
func (c *Certificates) values(leaf *x509.Certificate) (all []string) {
	switch c.Field {
	case CommonName:
		for _, a := range leaf.Subject.Names { // Subject.CommonName is the last of several
			if a.Type.Equal(commonName) {
				text, _ := a.Value.(string)
				all = append(all, text)
			}
		}
	case Email:
		all = leaf.EmailAddresses
	case URI:
		for _, u := range leaf.URIs {
			all = append(all, u.String())
		}
	case DNS:
		all = leaf.DNSNames
	}
	return all
}

const notForClients = "the client certificate is not for the authentication of clients: clientAuth is not in its extended key usage"

// reasonOf returns why a certificate is not valid.
func reasonOf(err error, leaf *x509.Certificate) string {
	var invalid x509.CertificateInvalidError
	switch {
	case time.Now().After(leaf.NotAfter):
		return "the client certificate has expired"
	case time.Now().Before(leaf.NotBefore):
		return "the client certificate is not valid yet"
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return notForClients
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "a certificate in the chain of the client certificate has expired"
	}
	return "the client certificate was not issued by an accepted CA"
}

// Both returns the identity of a request that identifies its caller twice: it has the scopes that
// both have, until one of them expires. Two tenants are refused.
func Both(a, b Identity) (Identity, error) {
	if a.Tenant != b.Tenant {
		return Identity{}, refuse("the token and the client certificate identify different customers")
	}
	both := Identity{Tenant: a.Tenant, Expires: a.Expires}
	for _, s := range a.Scopes {
		if slices.Contains(b.Scopes, s) {
			both.Scopes = append(both.Scopes, s)
		}
	}
	if both.Expires.IsZero() || !b.Expires.IsZero() && b.Expires.Before(both.Expires) {
		both.Expires = b.Expires
	}
	return both, nil
}
