package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// needsRegistration reports whether dynamic registration is needed: the configuration
// contains no client, and no metadata document that the server supports.
func (c Client) needsRegistration(p authServer) bool {
	return c.ID == "" && (c.MetadataURL == "" || !p.Documents)
}

// clientFor returns the client for an authorization server, and its registration if it
// was registered dynamically.
func (c Config) clientFor(ctx context.Context, p authServer, redirect string, scopes []string) (clientIdentity, *registration, error) {
	switch {
	case c.Client.ID != "":
		return c.Client.identity(p.metadata), nil, nil
	case !c.Client.needsRegistration(p):
		return clientIdentity{ID: c.Client.MetadataURL, Method: methodNone}, nil, nil
	case p.Registration != "":
		made, err := c.register(ctx, p, redirect, scopes)
		if err != nil {
			return clientIdentity{}, nil, err
		}
		return made.Client, made, nil
	}
	return clientIdentity{}, nil, fault.New(fault.Denied, "uses the authorization server %s, which does not support client registration",
		issuerOrigin(p.Issuer)).
		WithHint("register a native app there, and set client_id in oauth of the server")
}

// register registers a client dynamically (RFC 7591).
func (c Config) register(ctx context.Context, p authServer, redirect string, scopes []string) (*registration, error) {
	want := map[string]any{
		"client_name": "Sandpiper", "redirect_uris": []string{redirect}, "application_type": "native",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": preferredMethod(p.Methods),
	}
	if len(scopes) > 0 {
		want["scope"] = strings.Join(scopes, " ")
	}
	body, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Registration, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	var made struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Method string `json:"token_endpoint_auth_method"`
		Ends   int64  `json:"client_secret_expires_at"` // 0 means never
	}
	err = doJSON(req, &made)
	if err == nil && made.ID == "" {
		err = errMalformed
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "uses the authorization server %s, which refused client registration: %s",
			issuerOrigin(p.Issuer), reason(err)).
			WithHint("register a native app there, and set client_id in oauth of the server")
	}
	c.OnSecret(made.Secret)
	r := &registration{Issuer: p.Issuer, ConfiguredRedirect: c.Client.Redirect, Redirect: redirect, Scopes: scopes,
		Client: clientIdentity{ID: made.ID, Secret: made.Secret, Method: registeredMethod(made.Method, made.Secret, p.Methods)}}
	if made.Secret != "" && made.Ends > 0 {
		r.ExpiresAt = time.Unix(made.Ends, 0)
	}
	return r, nil
}

// preferredMethod returns the preferred authentication method of the supported ones: a
// program on a person's machine cannot keep a secret.
func preferredMethod(supported []string) string {
	for _, m := range []string{methodNone, methodBasic, methodPost} {
		if slices.Contains(supported, m) {
			return m
		}
	}
	return methodNone
}

// registeredMethod returns the authentication method of a registered client.
func registeredMethod(method, secret string, supported []string) string {
	switch {
	case secret == "":
		return methodNone
	case method == methodNone || method == methodBasic || method == methodPost:
		return method
	case slices.Contains(supported, methodPost) && !slices.Contains(supported, methodBasic):
		return methodPost
	}
	return methodBasic
}
