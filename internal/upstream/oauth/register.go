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

// registers tells whether an authorization server has to make a client for us: there
// is none in the configuration, and no document that it can read.
func (c Config) needsRegistration(p authServer) bool {
	return c.Client.ID == "" && (c.Client.Document == "" || !p.Documents)
}

// introduce settles who we are to an authorization server. The registration is that
// of the client, if there is one.
func (c Config) clientFor(ctx context.Context, p authServer, redirect string, scopes []string) (clientIdentity, *registration, error) {
	switch {
	case c.Client.ID != "":
		return c.Client.identity(p.metadata), nil, nil
	case !c.needsRegistration(p):
		return clientIdentity{ID: c.Client.Document, Method: methodNone}, nil, nil
	case p.Registration != "":
		made, err := c.register(ctx, p, redirect, scopes)
		if err != nil {
			return clientIdentity{}, nil, err
		}
		return made.Client, made, nil
	}
	return clientIdentity{}, nil, fault.New(fault.Denied, "has the authorization server %s, which registers nobody by itself", issuerHost(p.Issuer)).
		WithHint("register a native app there, and write its client_id into the server's oauth")
}

// register has the authorization server make a client (RFC 7591).
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
		return nil, fault.New(fault.Unavailable, "has the authorization server %s, which does not register us: %s", issuerHost(p.Issuer), reason(err)).
			WithHint("register a native app there, and write its client_id into the server's oauth")
	}
	c.OnSecret(made.Secret)
	r := &registration{Issuer: p.Issuer, ConfiguredRedirect: c.Client.Redirect, Redirect: redirect, Scopes: scopes,
		Client: clientIdentity{ID: made.ID, Secret: made.Secret, Method: registeredMethod(made.Method, made.Secret, p.Methods)}}
	if made.Secret != "" && made.Ends > 0 {
		r.ExpiresAt = time.Unix(made.Ends, 0)
	}
	return r, nil
}

// preferred is the way to say who we are of those that are taken: a program on a
// person's machine has no secrets.
func preferredMethod(taken []string) string {
	for _, m := range []string{methodNone, methodBasic, methodPost} {
		if slices.Contains(taken, m) {
			return m
		}
	}
	return methodNone
}

// agreed is the way that came of a registration.
func registeredMethod(said, secret string, taken []string) string {
	switch {
	case secret == "":
		return methodNone
	case said == methodNone || said == methodBasic || said == methodPost:
		return said
	case slices.Contains(taken, methodPost) && !slices.Contains(taken, methodBasic):
		return methodPost
	}
	return methodBasic
}
