package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Ways in which a client says who it is, as authorization servers name them.
const (
	none  = "none"
	basic = "client_secret_basic"
	post  = "client_secret_post"
	keyed = "private_key_jwt"
)

// known is a client as an authorization server knows it.
type known struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"` // "" for the secret in the configuration
	Method string `json:"method"`
}

// configured is the client of the configuration.
func (c Client) configured(m metadata) known {
	k := known{ID: c.ID, Method: basic}
	switch {
	case c.Key != "":
		k.Method = keyed
	case c.Secret == "":
		k.Method = none
	case slices.Contains(m.Methods, post) && !slices.Contains(m.Methods, basic):
		k.Method = post
	}
	return k
}

// token asks an authorization server for one. All kinds of request are the same
// but for their parameters, so the library's simplest serves for all of them.
func (c Config) token(ctx context.Context, issuer, at string, k known, params url.Values) (*oauth2.Token, error) {
	style := oauth2.AuthStyleInParams
	if k.Method == basic {
		style = oauth2.AuthStyleInHeader
	}
	if err := c.prove(issuer, k, params); err != nil {
		return nil, err
	}
	cfg := clientcredentials.Config{ClientID: k.ID, ClientSecret: c.secret(k), TokenURL: at, AuthStyle: style, EndpointParams: params}
	got, err := cfg.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return nil, c.clean(err, k, params)
	}
	if !strings.EqualFold(got.Type(), "bearer") || !httpguts.ValidHeaderFieldValue(got.AccessToken) {
		return nil, errRubbish
	}
	c.Secret(c.secret(k)) // again: others come and go
	c.Secret(got.AccessToken)
	c.Secret(got.RefreshToken)
	return got, nil
}

// secret is what the client shows of itself: that of the configuration may have
// changed since the login, and is not kept with it.
func (c Config) secret(k known) string {
	if k.Method == none || k.Method == keyed {
		return ""
	}
	if k.Secret == "" && k.ID == c.Client.ID {
		return c.Client.Secret
	}
	return k.Secret
}

// prove adds what a client with a private key signs (RFC 7523).
func (c Config) prove(issuer string, k known, params url.Values) error {
	if k.Method != keyed {
		return nil
	}
	key, method, err := parseKey(c.Client.Key)
	if err != nil {
		return err
	}
	now := time.Now()
	claims := jwt.RegisteredClaims{Issuer: k.ID, Subject: k.ID, Audience: jwt.ClaimStrings{issuer}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(time.Minute))}
	signed, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		return errKey
	}
	params.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	params.Set("client_assertion", signed)
	return nil
}

var errKey = fault.New(fault.Invalid, "has a private_key in its oauth that cannot be used").
	WithHint("it must be an EC (P-256, P-384, P-521), RSA or Ed25519 key in PEM")

func parseKey(pem string) (key any, method jwt.SigningMethod, err error) {
	if k, err := jwt.ParseECPrivateKeyFromPEM([]byte(pem)); err == nil {
		switch k.Curve.Params().BitSize {
		case 256:
			return k, jwt.SigningMethodES256, nil
		case 384:
			return k, jwt.SigningMethodES384, nil
		case 521:
			return k, jwt.SigningMethodES512, nil
		}
	}
	if k, err := jwt.ParseRSAPrivateKeyFromPEM([]byte(pem)); err == nil {
		return k, jwt.SigningMethodRS256, nil
	}
	if k, err := jwt.ParseEdPrivateKeyFromPEM([]byte(pem)); err == nil {
		return k, jwt.SigningMethodEdDSA, nil
	}
	return nil, nil, errKey
}

// clean takes what was sent out of what came back: an authorization server may
// repeat it.
func (c Config) clean(err error, k known, params url.Values) error {
	told, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return err
	}
	r := refusal{told.ErrorCode, told.ErrorDescription}
	for _, text := range []*string{&r.Code, &r.Description} {
		for _, name := range []string{"code", "code_verifier", "refresh_token", "client_assertion"} {
			*text = hide(*text, params.Get(name))
		}
		*text = hide(*text, c.secret(k))
	}
	if r.Code != "" {
		return &r
	}
	if told.Response.StatusCode > 299 {
		return status(told.Response.StatusCode)
	}
	return errRubbish
}

func hide(text, secret string) string {
	if secret == "" {
		return text
	}
	return strings.ReplaceAll(text, secret, "[secret]")
}

// says tells whether an authorization server refused with one of some codes.
func says(err error, codes ...string) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && slices.Contains(codes, r.Code)
}

// granted are the rights that came with a token: those asked for, if the server
// does not say.
func granted(got *oauth2.Token, asked []string) []string {
	if said, ok := got.Extra("scope").(string); ok {
		return strings.Fields(said)
	}
	return asked
}

// revoke has the authorization server forget a token (RFC 7009).
func (c Config) revoke(ctx context.Context, r *record, token, hint string) error {
	params := url.Values{"token": {token}, "token_type_hint": {hint}}
	if err := c.prove(r.Issuer, r.Client, params); err != nil {
		return err
	}
	if r.Client.Method != basic {
		params.Set("client_id", r.Client.ID)
	}
	if r.Client.Method == post {
		params.Set("client_secret", c.secret(r.Client))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Revocation, strings.NewReader(params.Encode()))
	if err != nil {
		return fmt.Errorf("revoke: %w", errRubbish)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if r.Client.Method == basic {
		req.SetBasicAuth(url.QueryEscape(r.Client.ID), url.QueryEscape(c.secret(r.Client)))
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		if err != nil {
			return err
		}
		err = refused(res.StatusCode, body)
		if said, ok := errors.AsType[*refusal](err); ok { // which may repeat what it was sent
			for _, secret := range []string{token, c.secret(r.Client), params.Get("client_assertion")} {
				said.Description = hide(said.Description, secret)
			}
		}
		return err
	}
	return nil
}
