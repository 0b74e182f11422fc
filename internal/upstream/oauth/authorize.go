package oauth

import (
	"context"
	"net/url"
	"slices"

	"golang.org/x/oauth2"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// Person is who logs in.
type Interaction struct {
	// Visit shows the address at which to log in, or opens it in a browser. It has
	// to return soon.
	OpenURL func(address string)
	// Pasted are lines that the person typed: the address at which the browser
	// ended, or the code in it. nil if nobody can type.
	Pasted <-chan string
	// Wrong is told why what was pasted is of no use; the next line may be. nil if
	// nobody can type.
	Reject func(why string)
}

// Authorize lets a person log in, as the server challenged, and keeps what comes
// of it. ctx bounds how long they have.
func (l *Login) Authorize(ctx context.Context, c Challenge, p Interaction) error {
	wanted, before := l.mergeChallenge(c)
	to, err := l.cfg.discover(ctx, wanted)
	if err != nil {
		return err
	}
	if to.Authorization == "" || !slices.Contains(to.Proofs, "S256") {
		return fault.New(fault.Denied, "has the authorization server %s, which does not let programs log in safely (PKCE with S256)", issuerHost(to.Issuer))
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
		if made != nil { // the server may know the client no more, and only the person saw that
			l.forgetClient(ctx)
		}
		return err
	}
	return l.exclusive(ctx, func(context.Context) error { return l.put(r) })
}

// land opens the landing: where a client is registered that serves for this login
// too, if nothing else listens there.
func (l *Login) openCallback(before *record, to authServer, scopes []string) (*callbackServer, *registration, error) {
	if before != nil && l.cfg.needsRegistration(to) && before.Registration.isUsable(to.Issuer, l.cfg.Client.Redirect, scopes) {
		if back, err := listenCallback(before.Registration.Redirect); err == nil {
			return back, before.Registration, nil
		}
	}
	back, err := listenCallback(l.cfg.Client.Redirect)
	return back, nil, err
}

// forgetClient has the next login register a client.
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
		l.cfg.Log.Warn("a registration of no use could not be removed", "server", l.cfg.Server, "error", err)
	}
}

// offline is the scope that asks for a token that can be renewed.
const offlineAccess = "offline_access"

// open joins the challenge with what is on disk: the login that was, and what the
// server wanted of the next.
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

// exchange sends the person to the authorization server and trades what they come
// back with for tokens.
func (l *Login) runCodeFlow(ctx context.Context, r *record, to authServer, back *callbackServer, scopes []string, p Interaction) error {
	verifier := oauth2.GenerateVerifier()
	cfg := oauth2.Config{ClientID: r.Client.ID, RedirectURL: back.redirectURI, Scopes: scopes, Endpoint: oauth2.Endpoint{AuthURL: to.Authorization}}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", to.resource)}
	if slices.Contains(scopes, offlineAccess) {
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent")) // OpenID Connect wants it
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
		return fault.New(fault.Denied, "was answered for by another authorization server than %s; nothing was sent there", issuerHost(to.Issuer))
	case a.err != "":
		return fault.New(fault.Denied, "has the authorization server %s, which let nobody in: %s", issuerHost(to.Issuer), sanitize.Line(a.err, 300))
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
