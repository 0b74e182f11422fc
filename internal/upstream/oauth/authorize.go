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
type Person struct {
	// Visit shows the address at which to log in, or opens it in a browser. It has
	// to return soon.
	Visit func(address string)
	// Pasted are lines that the person typed: the address at which the browser
	// ended, or the code in it. nil if nobody can type.
	Pasted <-chan string
	// Wrong is told why what was pasted is of no use; the next line may be. nil if
	// nobody can type.
	Wrong func(why string)
}

// Authorize lets a person log in, as the server challenged, and keeps what comes
// of it. ctx bounds how long they have.
func (l *Login) Authorize(ctx context.Context, c Challenge, p Person) error {
	wanted, before := l.open(c)
	to, err := l.cfg.find(ctx, wanted)
	if err != nil {
		return err
	}
	if to.Authorization == "" || !slices.Contains(to.Proofs, "S256") {
		return fault.New(fault.Denied, "has the authorization server %s, which does not let programs log in safely (PKCE with S256)", host(to.Issuer))
	}
	var had []string
	if before != nil && before.Issuer == to.Issuer {
		had = before.Scopes
	}
	scopes := l.cfg.scopes(wanted, had, to)
	if slices.Contains(to.metadata.Scopes, offline) && !slices.Contains(scopes, offline) {
		scopes = append(scopes, offline)
	}
	back, made, err := l.land(before, to, scopes)
	if err != nil {
		return err
	}
	defer back.close()
	r := &record{URL: l.cfg.URL, Resource: to.resource, Issuer: to.Issuer, Endpoint: to.Token, Revocation: to.Revocation, Registration: made}
	if made != nil {
		r.Client = made.Client
	} else if r.Client, r.Registration, err = l.cfg.introduce(ctx, to, back.address, scopes); err != nil {
		return err
	}
	if err := l.exchange(ctx, r, to, back, scopes, p); err != nil {
		if made != nil { // the server may know the client no more, and only the person saw that
			l.forgetClient(ctx)
		}
		return err
	}
	return l.alone(ctx, func(context.Context) error { return l.put(r) })
}

// land opens the landing: where a client is registered that serves for this login
// too, if nothing else listens there.
func (l *Login) land(before *record, to place, scopes []string) (*landing, *registration, error) {
	if before != nil && l.cfg.registers(to) && before.Registration.serves(to.Issuer, l.cfg.Client.Redirect, scopes) {
		if back, err := listen(before.Registration.Redirect); err == nil {
			return back, before.Registration, nil
		}
	}
	back, err := listen(l.cfg.Client.Redirect)
	return back, nil, err
}

// forgetClient has the next login register a client.
func (l *Login) forgetClient(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := l.alone(ctx, func(context.Context) error {
		r, err := l.now()
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
const offline = "offline_access"

// open joins the challenge with what is on disk: the login that was, and what the
// server wanted of the next.
func (l *Login) open(c Challenge) (Challenge, *record) {
	r, err := l.now()
	if err != nil || r == nil {
		return c, nil
	}
	if w := r.Wanted; w != nil {
		if c.Metadata == "" {
			c.Metadata = w.Metadata
		}
		if w.More || c.Scopes == nil {
			c.Scopes, c.More = append(slices.Clone(c.Scopes), w.Scopes...), w.More
		}
	}
	return c, r
}

// exchange sends the person to the authorization server and trades what they come
// back with for tokens.
func (l *Login) exchange(ctx context.Context, r *record, to place, back *landing, scopes []string, p Person) error {
	verifier := oauth2.GenerateVerifier()
	cfg := oauth2.Config{ClientID: r.Client.ID, RedirectURL: back.address, Scopes: scopes, Endpoint: oauth2.Endpoint{AuthURL: to.Authorization}}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", to.resource)}
	if slices.Contains(scopes, offline) {
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent")) // OpenID Connect wants it
	}
	l.cfg.Secret(verifier)
	p.Visit(cfg.AuthCodeURL(back.state, options...))
	a, err := back.wait(ctx, to.NamesItself, p)
	if err != nil {
		return err
	}
	l.cfg.Secret(a.code)
	switch {
	case a.issuer != to.Issuer && (a.issuer != "" || to.NamesItself && !a.bare):
		return fault.New(fault.Denied, "was answered for by another authorization server than %s; nothing was sent there", host(to.Issuer))
	case a.refused != "":
		return fault.New(fault.Denied, "has the authorization server %s, which let nobody in: %s", host(to.Issuer), sanitize.Line(a.refused, 300))
	}
	got, err := l.cfg.token(ctx, r.Issuer, r.Endpoint, r.Client, url.Values{
		"grant_type": {"authorization_code"}, "code": {a.code}, "redirect_uri": {back.address},
		"code_verifier": {verifier}, "resource": {to.resource},
	})
	if err != nil {
		return unavailable(to.Issuer, err)
	}
	r.take(got, scopes)
	return nil
}
