package oauth

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// authServer is the authorization server for a resource.
type authServer struct {
	metadata
	resource string   // resource that tokens are issued for
	scopes   []string // from the resource metadata
}

// metadata is authorization server metadata (RFC 8414).
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

// resourceMetadata is protected resource metadata (RFC 9728).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// discover finds the authorization server. A server without resource metadata is assumed
// to be its own authorization server, as in the first version of the protocol.
func (c Config) discover(ctx context.Context, wanted Challenge) (authServer, error) {
	if !isSafeURL(c.URL, c.URL) {
		return authServer{}, fault.New(fault.Denied, "is reached without TLS, which would expose its tokens").
			WithHint("change its URL to https://")
	}
	d, err := c.fetchResourceMetadata(ctx, wanted.Metadata)
	if err != nil {
		return authServer{}, err
	}
	p := authServer{resource: d.Resource, scopes: d.Scopes}
	legacy := d.Issuers == nil
	if legacy {
		d.Issuers = []string{origin(c.URL)}
	}
	issuer := d.Issuers[0]
	if c.Client.Issuer != "" {
		if !slices.Contains(d.Issuers, c.Client.Issuer) {
			return authServer{}, fault.New(fault.Denied, "requires tokens of %s, but the client in its oauth is registered with %s",
				issuerOrigin(issuer), issuerOrigin(c.Client.Issuer)).
				WithHint("if the server moved, register there and change client_id, client_secret and issuer")
		}
		issuer = c.Client.Issuer
	}
	p.metadata, err = c.fetchServerMetadata(ctx, issuer, legacy)
	return p, err
}

// fetchResourceMetadata fetches the resource metadata; without any it returns no
// issuers.
func (c Config) fetchResourceMetadata(ctx context.Context, named string) (resourceMetadata, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return resourceMetadata{}, fault.New(fault.Invalid, "has an invalid URL")
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
			return d, fault.New(fault.Unavailable, "has no readable metadata at %s: %s", issuerOrigin(from), reason(err))
		case !isWithin(d.Resource, c.URL):
			return d, fault.New(fault.Denied, "has metadata for %.200q, which does not match its URL", d.Resource).
				WithHint("check its URL; if it is correct, the server is misconfigured")
		case len(d.Issuers) == 0:
			return d, fault.New(fault.Unavailable, "requires tokens but names no authorization server")
		}
		return d, nil
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return resourceMetadata{Resource: u.String()}, nil
}

// isWithin reports whether the server URL is the resource or below it.
func isWithin(resource, server string) bool {
	r, err := url.Parse(resource)
	s, err2 := url.Parse(server)
	if err != nil || err2 != nil || r.Scheme != s.Scheme || !strings.EqualFold(r.Host, s.Host) ||
		r.RawQuery != "" && r.RawQuery != s.RawQuery {
		return false
	}
	path := strings.TrimRight(r.Path, "/")
	return s.Path == path || strings.HasPrefix(s.Path, path+"/")
}

// origin returns the origin of a URL.
func origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return u.Scheme + "://" + u.Host
}

// fetchServerMetadata fetches and validates the metadata of an authorization server.
func (c Config) fetchServerMetadata(ctx context.Context, issuer string, legacy bool) (metadata, error) {
	if !isSafeURL(issuer, c.URL) {
		return metadata{}, fault.New(fault.Denied, "names the authorization server %.200q, which is not an https:// URL", issuer)
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
	if legacy { // default endpoints of the first protocol version
		return metadata{Issuer: issuer, Authorization: issuer + "/authorize", Token: issuer + "/token", Registration: issuer + "/register",
			Proofs: []string{"S256"}}, nil
	}
	return metadata{}, fault.New(fault.Unavailable, "uses the authorization server %s, which has no metadata", issuerOrigin(issuer))
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
		return fault.New(fault.Denied, "uses the authorization server %s, whose metadata has the issuer %.200q", issuerOrigin(issuer),
			m.Issuer)
	}
	for name, at := range map[string]string{
		"authorization_endpoint": m.Authorization, "token_endpoint": m.Token,
		"registration_endpoint": m.Registration, "revocation_endpoint": m.Revocation,
	} {
		if at != "" && !isSafeURL(at, c.URL) || at == "" && name == "token_endpoint" {
			return fault.New(fault.Denied, "uses the authorization server %s, whose %s %.200q is not an https:// URL", issuerOrigin(issuer),
				name, at)
		}
	}
	return nil
}
