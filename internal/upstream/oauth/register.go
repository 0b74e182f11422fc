package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// introduce settles who we are to an authorization server: the client of the
// configuration, else a document that it can read, else one that it registers.
func (c Config) introduce(ctx context.Context, p place, redirect string, scopes []string) (known, error) {
	switch {
	case c.Client.ID != "":
		return c.Client.configured(p.metadata), nil
	case c.Client.Document != "" && p.Documents:
		return known{ID: c.Client.Document, Method: none}, nil
	case p.Registration != "":
		return c.register(ctx, p, redirect, scopes)
	}
	return known{}, fault.New(fault.Denied, "has the authorization server %s, which registers nobody by itself", host(p.Issuer)).
		WithHint("register a native app there, and write its client_id into the server's oauth")
}

// register has the authorization server make a client (RFC 7591).
func (c Config) register(ctx context.Context, p place, redirect string, scopes []string) (known, error) {
	want := map[string]any{
		"client_name": "Sandpiper", "redirect_uris": []string{redirect}, "application_type": "native",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": preferred(p.Methods),
	}
	if len(scopes) > 0 {
		want["scope"] = strings.Join(scopes, " ")
	}
	body, err := json.Marshal(want)
	if err != nil {
		return known{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Registration, bytes.NewReader(body))
	if err != nil {
		return known{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	var made struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Method string `json:"token_endpoint_auth_method"`
	}
	err = exchange(req, &made)
	if err == nil && made.ID == "" {
		err = errRubbish
	}
	if err != nil {
		return known{}, fault.New(fault.Unavailable, "has the authorization server %s, which does not register us: %s", host(p.Issuer), why(err)).
			WithHint("register a native app there, and write its client_id into the server's oauth")
	}
	c.Secret(made.Secret)
	return known{ID: made.ID, Secret: made.Secret, Method: agreed(made.Method, made.Secret, p.Methods)}, nil
}

// preferred is the way to say who we are of those that are taken: a program on a
// person's machine has no secrets.
func preferred(taken []string) string {
	for _, m := range []string{none, basic, post} {
		if slices.Contains(taken, m) {
			return m
		}
	}
	return none
}

// agreed is the way that came of a registration.
func agreed(said, secret string, taken []string) string {
	switch {
	case secret == "":
		return none
	case said == none || said == basic || said == post:
		return said
	case slices.Contains(taken, post) && !slices.Contains(taken, basic):
		return post
	}
	return basic
}
