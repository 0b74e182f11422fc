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
	before, _ := l.current() // an unreadable login is replaced
	wanted := mergeChallenge(c, before)
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
	scopes := l.cfg.Client.requestedScopes(wanted, had, to)
	if slices.Contains(to.metadata.Scopes, offlineAccess) && !slices.Contains(scopes, offlineAccess) {
		scopes = append(scopes, offlineAccess)
	}
	back, made, err := l.cfg.Client.openCallback(before, to, scopes)
	if err != nil {
		return err
	}
	defer back.close()
	r := &record{
		URL:          l.cfg.URL,
		Resource:     to.resource,
		Issuer:       to.Issuer,
		Endpoint:     to.Token,
		Revocation:   to.Revocation,
		Registration: made,
	}
	if made != nil {
		r.Client = made.Client
	} else if r.Client, r.Registration, err = l.cfg.clientFor(ctx, to, back.redirectURI, scopes); err != nil {
		return err
	}
	if err := l.cfg.runCodeFlow(ctx, r, to, back, scopes, p); err != nil {
		if made != nil { // the client may be unknown to the server, which only the browser displays
			l.forgetClient(ctx)
		}
		return err
	}
	return l.exclusive(ctx, func(context.Context) error { return l.put(r) })
}

// openCallback starts the callback server: at the redirect URL of a registered client
// that can be reused, otherwise at the configured one.
func (c Client) openCallback(before *record, to authServer, scopes []string) (*callbackServer, *registration, error) {
	if before != nil && c.needsRegistration(to) && before.Registration.isUsable(to.Issuer, c.Redirect, scopes) {
		if back, err := listenCallback(before.Registration.Redirect); err == nil {
			return back, before.Registration, nil
		}
	}
	back, err := listenCallback(c.Redirect)
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

// mergeChallenge merges a challenge with the stored one; r is nil without a login.
func mergeChallenge(c Challenge, r *record) Challenge {
	if r == nil || r.Challenge == nil {
		return c
	}
	w := r.Challenge
	if c.Metadata == "" {
		c.Metadata = w.Metadata
	}
	if w.InsufficientScope || c.Scopes == nil {
		c.Scopes, c.InsufficientScope = append(slices.Clone(c.Scopes), w.Scopes...), w.InsufficientScope
	}
	return c
}

// runCodeFlow sends the person to the authorization server and exchanges the code for
// tokens.
func (c Config) runCodeFlow(ctx context.Context, r *record, to authServer, back *callbackServer, scopes []string, p Interaction) error {
	verifier := oauth2.GenerateVerifier()
	cfg := oauth2.Config{ClientID: r.Client.ID, RedirectURL: back.redirectURI, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: to.Authorization}}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", to.resource)}
	if slices.Contains(scopes, offlineAccess) {
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent")) // required by OpenID Connect
	}
	c.OnSecret(verifier)
	p.OpenURL(cfg.AuthCodeURL(back.state, options...))
	a, err := back.wait(ctx, to.NamesItself, p)
	if err != nil {
		return err
	}
	c.OnSecret(a.code)
	switch {
	case a.issuer != to.Issuer && (a.issuer != "" || to.NamesItself && !a.codeOnly):
		return fault.New(fault.Denied, "received a redirect of another authorization server than %s; nothing was sent there",
			issuerOrigin(to.Issuer))
	case a.err != "":
		return fault.New(fault.Denied, "uses the authorization server %s, which refused the login: %s", issuerOrigin(to.Issuer),
			sanitize.Line(a.err, 300))
	}
	got, err := c.requestToken(ctx, r.Issuer, r.Endpoint, r.Client, url.Values{
		"grant_type": {"authorization_code"}, "code": {a.code}, "redirect_uri": {back.redirectURI},
		"code_verifier": {verifier}, "resource": {to.resource},
	})
	if err != nil {
		return serverUnavailable(to.Issuer, err)
	}
	r.setToken(got, scopes)
	return nil
}
