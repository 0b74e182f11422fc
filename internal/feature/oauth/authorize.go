package oauth

import (
	"context"
	"net/url"
	"slices"

	"golang.org/x/oauth2"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// Interaction connects a login to the person's browser and terminal.
type Interaction = upstream.Interaction

// Authorize runs an interactive login for a challenge and stores the tokens. ctx bounds
// its duration.
func (l *Login) Authorize(ctx context.Context, c Challenge, p Interaction) error {
	wanted, before := l.mergeChallenge(c)
	to, err := l.cfg.discover(ctx, wanted)
	if err != nil {
		return err
	}
	if to.Authorization == "" || !slices.Contains(to.Proofs, "S256") {
		return fault.New(fault.Denied, "uses the authorization server %s, which does not support PKCE with S256", issuerOrigin(to.Issuer))
	}
	var had []string
	if before != nil && before.Issuer == to.Issuer {
		had = before.Scopes
	}
	scopes := l.cfg.requestedScopes(wanted, had, to)
	if slices.Contains(to.metadata.Scopes, offlineAccess) && !slices.Contains(scopes, offlineAccess) {
		scopes = append(scopes, offlineAccess)
	}
	back, made, err := l.openCallback(before, to, scopes)
	if err != nil {
		return err
	}
	defer back.close()
	r := &record{URL: l.cfg.URL, Resource: to.resource, Issuer: to.Issuer, Endpoint: to.Token, Revocation: to.Revocation, Registration: made}
	if made != nil {
		r.Client = made.Client
	} else if r.Client, r.Registration, err = l.cfg.clientFor(ctx, to, back.redirectURI, scopes); err != nil {
		return err
	}
	if err := l.runCodeFlow(ctx, r, to, back, scopes, p); err != nil {
		if made != nil { // the client may be unknown to the server, which only the browser displays
			l.forgetClient(ctx)
		}
		return err
	}
	return l.exclusive(ctx, func(context.Context) error { return l.put(r) })
}

// openCallback starts the callback server: at the redirect URL of a registered client
// that can be reused, otherwise at the configured one.
func (l *Login) openCallback(before *record, to authServer, scopes []string) (*callbackServer, *registration, error) {
	if before != nil && l.cfg.needsRegistration(to) && before.Registration.isUsable(to.Issuer, l.cfg.Client.Redirect, scopes) {
		if back, err := listenCallback(before.Registration.Redirect); err == nil {
			return back, before.Registration, nil
		}
	}
	back, err := listenCallback(l.cfg.Client.Redirect)
	return back, nil, err
}

// forgetClient deletes the registration, so that the next login registers a client.
func (l *Login) forgetClient(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	err := l.exclusive(ctx, func(context.Context) error {
		r, err := l.current()
		if err != nil || r == nil || r.Registration == nil {
			return err
		}
		next := *r
		next.Registration = nil
		return l.put(&next)
	})
	if err != nil {
		l.cfg.Log.Warn("an unusable client registration could not be deleted", "server", l.cfg.Server, "error", err)
	}
}

// offlineAccess is the scope that requests a refresh token.
const offlineAccess = "offline_access"

// mergeChallenge merges the challenge with the stored one, and returns the stored login.
func (l *Login) mergeChallenge(c Challenge) (Challenge, *record) {
	r, err := l.current()
	if err != nil || r == nil {
		return c, nil
	}
	if w := r.Challenge; w != nil {
		if c.Metadata == "" {
			c.Metadata = w.Metadata
		}
		if w.InsufficientScope || c.Scopes == nil {
			c.Scopes, c.InsufficientScope = append(slices.Clone(c.Scopes), w.Scopes...), w.InsufficientScope
		}
	}
	return c, r
}

// runCodeFlow sends the person to the authorization server and exchanges the code for
// tokens.
func (l *Login) runCodeFlow(ctx context.Context, r *record, to authServer, back *callbackServer, scopes []string, p Interaction) error {
	verifier := oauth2.GenerateVerifier()
	cfg := oauth2.Config{ClientID: r.Client.ID, RedirectURL: back.redirectURI, Scopes: scopes, Endpoint: oauth2.Endpoint{AuthURL: to.Authorization}}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", to.resource)}
	if slices.Contains(scopes, offlineAccess) {
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent")) // required by OpenID Connect
	}
	l.cfg.OnSecret(verifier)
	p.OpenURL(cfg.AuthCodeURL(back.state, options...))
	a, err := back.wait(ctx, to.NamesItself, p)
	if err != nil {
		return err
	}
	l.cfg.OnSecret(a.code)
	switch {
	case a.issuer != to.Issuer && (a.issuer != "" || to.NamesItself && !a.codeOnly):
		return fault.New(fault.Denied, "received a redirect of another authorization server than %s; nothing was sent there", issuerOrigin(to.Issuer))
	case a.err != "":
		return fault.New(fault.Denied, "uses the authorization server %s, which refused the login: %s", issuerOrigin(to.Issuer), sanitize.Line(a.err, 300))
	}
	got, err := l.cfg.requestToken(ctx, r.Issuer, r.Endpoint, r.Client, url.Values{
		"grant_type": {"authorization_code"}, "code": {a.code}, "redirect_uri": {back.redirectURI},
		"code_verifier": {verifier}, "resource": {to.resource},
	})
	if err != nil {
		return serverUnavailable(to.Issuer, err)
	}
	r.setToken(got, scopes)
	return nil
}
