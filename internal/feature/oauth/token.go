package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// Client authentication methods, as named in server metadata.
const (
	methodNone       = "none"
	methodBasic      = "client_secret_basic"
	methodPost       = "client_secret_post"
	methodPrivateKey = "private_key_jwt"
)

// clientIdentity identifies a client to an authorization server.
type clientIdentity struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"` // "" means the configured secret
	Method string `json:"method"`
}

// identity returns the configured client.
func (c Client) identity(m metadata) clientIdentity {
	k := clientIdentity{ID: c.ID, Method: methodBasic}
	switch {
	case c.Key != "":
		k.Method = methodPrivateKey
	case c.Secret == "":
		k.Method = methodNone
	case slices.Contains(m.Methods, methodPost) && !slices.Contains(m.Methods, methodBasic):
		k.Method = methodPost
	}
	return k
}

// requestToken sends a token request. All grant types differ only in their parameters,
// so clientcredentials.Config serves for all.
func (c Config) requestToken(ctx context.Context, issuer, at string, k clientIdentity, params url.Values) (*oauth2.Token, error) {
	style := oauth2.AuthStyleInParams
	if k.Method == methodBasic {
		style = oauth2.AuthStyleInHeader
	}
	if err := c.signAssertion(issuer, k, params); err != nil {
		return nil, err
	}
	cfg := clientcredentials.Config{ClientID: k.ID, ClientSecret: c.clientSecret(k), TokenURL: at, AuthStyle: style, EndpointParams: params}
	got, err := cfg.Token(context.WithValue(ctx, oauth2.HTTPClient, httpClient))
	if err != nil {
		return nil, c.redactError(err, k, params)
	}
	if !strings.EqualFold(got.Type(), "bearer") || !httpguts.ValidHeaderFieldValue(got.AccessToken) {
		return nil, errMalformed
	}
	c.OnSecret(c.clientSecret(k)) // again, since the redactor keeps a limited number
	c.OnSecret(got.AccessToken)
	c.OnSecret(got.RefreshToken)
	return got, nil
}

// clientSecret returns the secret of the client. A configured secret is not stored with
// the login, since it may change.
func (c Config) clientSecret(k clientIdentity) string {
	if k.Method == methodNone || k.Method == methodPrivateKey {
		return ""
	}
	if k.Secret == "" && k.ID == c.Client.ID {
		return c.Client.Secret
	}
	return k.Secret
}

// redactError removes the parameters sent from an error: an authorization server may
// repeat them.
func (c Config) redactError(err error, k clientIdentity, params url.Values) error {
	retrieveErr, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return err
	}
	r := oauthError{retrieveErr.ErrorCode, retrieveErr.ErrorDescription}
	for _, text := range []*string{&r.Code, &r.Description} {
		for _, name := range []string{"code", "code_verifier", "refresh_token", "client_assertion"} {
			*text = redactSecret(*text, params.Get(name))
		}
		*text = redactSecret(*text, c.clientSecret(k))
	}
	if r.Code != "" {
		return &r
	}
	if retrieveErr.Response.StatusCode > 299 {
		return httpStatus(retrieveErr.Response.StatusCode)
	}
	return errMalformed
}

func redactSecret(text, secret string) string {
	if secret == "" {
		return text
	}
	return strings.ReplaceAll(text, secret, "[secret]")
}

// hasErrorCode reports whether an authorization server returned one of the error codes.
func hasErrorCode(err error, codes ...string) bool {
	r, ok := errors.AsType[*oauthError](err)
	return ok && slices.Contains(codes, r.Code)
}

// grantedScopes returns the scopes of a token; those requested if the server does not
// state them.
func grantedScopes(got *oauth2.Token, asked []string) []string {
	if scope, ok := got.Extra("scope").(string); ok {
		return strings.Fields(scope)
	}
	return asked
}

// revoke revokes a token (RFC 7009).
func (c Config) revoke(ctx context.Context, r *record, token, hint string) error {
	params := url.Values{"token": {token}, "token_type_hint": {hint}}
	if err := c.signAssertion(r.Issuer, r.Client, params); err != nil {
		return err
	}
	if r.Client.Method != methodBasic {
		params.Set("client_id", r.Client.ID)
	}
	if r.Client.Method == methodPost {
		params.Set("client_secret", c.clientSecret(r.Client))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Revocation, strings.NewReader(params.Encode()))
	if err != nil {
		return fmt.Errorf("revoke: %w", errMalformed)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if r.Client.Method == methodBasic {
		req.SetBasicAuth(url.QueryEscape(r.Client.ID), url.QueryEscape(c.clientSecret(r.Client)))
	}
	res, err := httpClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		body, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
		if err != nil {
			return err
		}
		err = responseError(res.StatusCode, body)
		if refusal, ok := errors.AsType[*oauthError](err); ok { // may repeat the parameters
			for _, secret := range []string{token, c.clientSecret(r.Client), params.Get("client_assertion")} {
				refusal.Description = redactSecret(refusal.Description, secret)
			}
		}
		return err
	}
	return nil
}
