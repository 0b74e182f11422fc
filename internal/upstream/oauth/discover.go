package oauth

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// place is where tokens for a server are given.
type authServer struct {
	metadata
	resource string   // what the tokens are for
	scopes   []string // that the server names in its description
}

// metadata is what an authorization server says of itself (RFC 8414).
type metadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Scopes        []string `json:"scopes_supported"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	Proofs        []string `json:"code_challenge_methods_supported"`
	Documents     bool     `json:"client_id_metadata_document_supported"`
	NamesItself   bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
}

// description is what a server says of itself (RFC 9728).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// find looks for the place. A server that describes itself in no way is taken at
// the word of the protocol's first days, when it was its own authorization server.
func (c Config) discover(ctx context.Context, wanted Challenge) (authServer, error) {
	if !isSafeURL(c.URL, c.URL) {
		return authServer{}, fault.New(fault.Denied, "is reached without TLS, where others could read its tokens on the way").
			WithHint("write its URL with https://")
	}
	d, err := c.fetchResourceMetadata(ctx, wanted.Metadata)
	if err != nil {
		return authServer{}, err
	}
	p := authServer{resource: d.Resource, scopes: d.Scopes}
	old := d.Issuers == nil
	if old {
		d.Issuers = []string{origin(c.URL)}
	}
	issuer := d.Issuers[0]
	if c.Client.Issuer != "" {
		if !slices.Contains(d.Issuers, c.Client.Issuer) {
			return authServer{}, fault.New(fault.Denied, "wants tokens of %s, and the client in its oauth is registered with %s", issuerHost(issuer), issuerHost(c.Client.Issuer)).
				WithHint("if the server moved, register there and change client_id, client_secret and issuer")
		}
		issuer = c.Client.Issuer
	}
	p.metadata, err = c.fetchServerMetadata(ctx, issuer, old)
	return p, err
}

// describe reads what the server says of itself; no issuers mean nothing.
func (c Config) fetchResourceMetadata(ctx context.Context, named string) (resourceMetadata, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return resourceMetadata{}, fault.New(fault.Invalid, "has a URL that cannot be read")
	}
	const known = "/.well-known/oauth-protected-resource"
	at := []string{named, u.Scheme + "://" + u.Host + known + strings.TrimRight(u.EscapedPath(), "/"), origin(c.URL) + known}
	for _, from := range slices.Compact(at) {
		var d resourceMetadata
		if from == "" || !isSafeURL(from, c.URL) {
			continue
		}
		switch err := fetchJSON(ctx, from, &d); {
		case isAbsent(err):
			continue
		case err != nil:
			return d, fault.New(fault.Unavailable, "does not describe itself at %s: %s", issuerHost(from), reason(err))
		case !isWithin(d.Resource, c.URL):
			return d, fault.New(fault.Denied, "says that it is %.200q, which is not where it is reached", d.Resource).
				WithHint("check its URL; if it is right, the server is set up wrongly")
		case len(d.Issuers) == 0:
			return d, fault.New(fault.Unavailable, "wants tokens and names no authorization server")
		}
		return d, nil
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return resourceMetadata{Resource: u.String()}, nil
}

// within tells whether a server is the resource, or a part of it.
func isWithin(resource, server string) bool {
	r, err := url.Parse(resource)
	s, err2 := url.Parse(server)
	if err != nil || err2 != nil || r.Scheme != s.Scheme || !strings.EqualFold(r.Host, s.Host) || r.RawQuery != "" && r.RawQuery != s.RawQuery {
		return false
	}
	path := strings.TrimRight(r.Path, "/")
	return s.Path == path || strings.HasPrefix(s.Path, path+"/")
}

// root is the origin of a URL.
func origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return u.Scheme + "://" + u.Host
}

// ask reads what the authorization server says of itself, and holds it against
// what must be true.
func (c Config) fetchServerMetadata(ctx context.Context, issuer string, old bool) (metadata, error) {
	if !isSafeURL(issuer, c.URL) {
		return metadata{}, fault.New(fault.Denied, "names the authorization server %.200q, which is not at https://", issuer)
	}
	for _, from := range metadataAddresses(issuer) {
		var m metadata
		switch err := fetchJSON(ctx, from, &m); {
		case isAbsent(err):
			continue
		case err != nil:
			return m, serverUnavailable(issuer, err)
		}
		return m, c.validate(m, issuer)
	}
	if old { // the addresses that were usual then
		return metadata{Issuer: issuer, Authorization: issuer + "/authorize", Token: issuer + "/token", Registration: issuer + "/register",
			Proofs: []string{"S256"}}, nil
	}
	return metadata{}, fault.New(fault.Unavailable, "has the authorization server %s, which does not describe itself", issuerHost(issuer))
}

func metadataAddresses(issuer string) []string {
	const oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	base := origin(issuer)
	path := strings.TrimRight(strings.TrimPrefix(issuer, base), "/")
	if path == "" {
		return []string{base + oauth, base + openid}
	}
	return []string{base + oauth + path, base + openid + path, base + path + openid}
}

func (c Config) validate(m metadata, issuer string) error {
	if strings.TrimSuffix(m.Issuer, "/") != strings.TrimSuffix(issuer, "/") {
		return fault.New(fault.Denied, "has the authorization server %s, which says that it is %.200q", issuerHost(issuer), m.Issuer)
	}
	for name, at := range map[string]string{
		"authorization_endpoint": m.Authorization, "token_endpoint": m.Token,
		"registration_endpoint": m.Registration, "revocation_endpoint": m.Revocation,
	} {
		if at != "" && !isSafeURL(at, c.URL) || at == "" && name == "token_endpoint" {
			return fault.New(fault.Denied, "has the authorization server %s, whose %s is %.200q and not at https://", issuerHost(issuer), name, at)
		}
	}
	return nil
}
