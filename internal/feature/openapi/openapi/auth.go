package openapi

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// security reads what the configuration omits: the API key scheme and the token URL.
func (b *builder) security(ctx context.Context, r *reader) error {
	schemes := b.doc.root.get("components").get("securitySchemes")
	var found []*APIKey
	for _, name := range schemes.names() {
		n, err := b.doc.follow(ctx, schemes.get(name))
		if err != nil {
			return err
		}
		if n.get("type").text() == "apiKey" {
			found = append(found, &APIKey{In: n.get("in").text(), Name: n.get("name").text()})
		}
		if u := n.get("flows").get("clientCredentials").get("tokenUrl").text(); u != "" && b.result.tokenURL == "" {
			b.result.tokenURL = u
		}
	}
	if key := b.cfg.Auth.Key; key != nil && key.Name == "" {
		if len(found) != 1 {
			return schemes.errorf("the document names %d kinds of key; configure one of them", len(found)).
				WithHint("write auth: {key: {in: header, name: X-API-Key, value: …}} into its entry")
		}
		b.result.key = found[0]
	}
	if client := b.cfg.Auth.Client; client != nil && client.TokenURL == "" {
		return b.tokenPlace(schemes, r)
	}
	return nil
}

// tokenPlace checks where the document has tokens asked for: the secret goes there.
func (b *builder) tokenPlace(schemes node, r *reader) error {
	hint := "write token_url under client_credentials in its entry"
	if b.result.tokenURL == "" {
		return schemes.errorf("the document does not say where a token is had").WithHint("%s", hint)
	}
	u, err := absoluteURL(r.base, b.result.tokenURL)
	if err != nil {
		return schemes.errorf("the document has tokens asked for at %.100q: %s", b.result.tokenURL, fault.Message(err)).WithHint("%s", hint)
	}
	if r.base != nil && !strings.EqualFold(u.Host, r.base.Host) && !b.cfg.isListedHost(u.Host) {
		return schemes.errorf("the document has tokens asked for at another host, %s", sanitize.Line(u.Host, 100)).
			WithHint("if that is right, %s", hint)
	}
	b.result.tokenURL = u.String()
	return nil
}

// key is how a key is sent; nil if there is none.
func (b *builder) key() *APIKey {
	if b.result.key != nil {
		return b.result.key
	}
	return b.cfg.Auth.Key
}

// credentials are the credentials of a request.
type credentials struct {
	headers map[string]string
	query   []pair
	cookies []pair
	token   string // the access token obtained with client credentials
	sent    bool   // they contain a secret
}

// credentials resolves the configured credentials.
func (a *API) credentials(ctx context.Context, doc *compiled, op *operation) (c credentials, err error) {
	c.headers = map[string]string{}
	for name, value := range a.cfg.Headers {
		if c.headers[name], err = a.cfg.Resolve(ctx, "header "+name, value); err != nil {
			return c, err
		}
		c.sent = c.sent || c.headers[name] != value || strings.EqualFold(name, "Authorization")
	}
	if op.noAuth {
		return c, nil
	}
	auth := a.cfg.Auth
	c.sent = c.sent || auth != Auth{}
	if auth.Bearer != "" {
		token, err := a.cfg.Resolve(ctx, "auth.bearer", auth.Bearer)
		if err != nil {
			return c, err
		}
		c.headers["Authorization"] = "Bearer " + token
	}
	if auth.Basic != nil {
		if err := a.addBasic(ctx, &c); err != nil {
			return c, err
		}
	}
	if auth.Client != nil {
		if c.token, err = a.tokens.get(ctx, func(ctx context.Context) (*oauth2.Token,
			error) {
			return a.requestToken(ctx, doc)
		}); err != nil {
			return c, err
		}
		c.headers["Authorization"] = "Bearer " + c.token
	}
	if auth.Key != nil {
		err := a.addKey(ctx, doc, &c)
		return c, err
	}
	return c, nil
}

func (a *API) addBasic(ctx context.Context, c *credentials) error {
	user, err := a.cfg.Resolve(ctx, "auth.basic.username", a.cfg.Auth.Basic.User)
	if err != nil {
		return err
	}
	password, err := a.cfg.Resolve(ctx, "auth.basic.password", a.cfg.Auth.Basic.Password)
	if err != nil {
		return err
	}
	both := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	a.cfg.OnSecret(both)
	c.headers["Authorization"] = "Basic " + both
	return nil
}

func (a *API) addKey(ctx context.Context, doc *compiled, c *credentials) error {
	key := a.cfg.Auth.Key
	value, err := a.cfg.Resolve(ctx, "auth.key.value", key.Value)
	if err != nil {
		return err
	}
	if doc.key != nil {
		key = doc.key
	}
	sent := pair{percentEncode(key.Name, false), percentEncode(value, false)}
	a.cfg.OnSecret(sent.value)
	switch key.In {
	case "query":
		c.query = append(c.query, sent)
	case "cookie":
		c.cookies = append(c.cookies, sent)
	default:
		c.headers[key.Name] = value
	}
	return nil
}

// add adds the credentials to a request.
func (c credentials) add(r *http.Request) {
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	for _, p := range c.cookies {
		r.Header.Set("Cookie", strings.TrimPrefix(r.Header.Get("Cookie")+"; ", "; ")+p.name+"="+p.value)
	}
	for _, p := range c.query {
		if r.URL.Query().Has(p.name) { // a link to the next page may contain it
			continue
		}
		r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery+"&", "&") + p.name + "=" + p.value
	}
}

// tokenCache caches a token until it expires.
type tokenCache struct {
	lock  chan struct{} // guards token, and is held during a token request
	token *oauth2.Token
}

// get returns the cached token or requests a new one. Concurrent callers share one
// request.
func (t *tokenCache) get(ctx context.Context, ask func(context.Context) (*oauth2.Token, error)) (string, error) {
	select {
	case t.lock <- struct{}{}:
		defer func() { <-t.lock }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if t.token == nil || !isFresh(t.token) {
		token, err := ask(ctx)
		if err != nil {
			return "", err
		}
		t.token = token
	}
	return t.token.AccessToken, nil
}

// isFresh reports whether the token remains valid for 30 s, or a tenth of a short
// lifetime.
func isFresh(t *oauth2.Token) bool {
	early := min(30*time.Second, time.Duration(t.ExpiresIn)*time.Second/10)
	return t.Expiry.IsZero() || time.Now().Add(early).Before(t.Expiry)
}

// drop removes a rejected token, unless it was already replaced.
func (t *tokenCache) drop(token string) {
	t.lock <- struct{}{}
	defer func() { <-t.lock }()
	if t.token != nil && t.token.AccessToken == token {
		t.token = nil
	}
}

// requestToken requests a token with the client credentials.
func (a *API) requestToken(ctx context.Context, doc *compiled) (*oauth2.Token, error) {
	c := a.cfg.Auth.Client
	place, id, secret := c.TokenURL, c.ID, c.Secret
	for what, value := range map[string]*string{"token_url": &place, "client_id": &id, "client_secret": &secret} {
		v, err := a.cfg.Resolve(ctx, "auth.client_credentials."+what, *value)
		if err != nil {
			return nil, err
		}
		*value = v
	}
	if place == "" {
		place = doc.tokenURL
	}
	u, err := checkHTTPURL(url.Parse(place))
	if err != nil {
		return nil, fault.New(fault.Invalid, "has a token_url that cannot be used: %s", fault.Message(err))
	}
	cc := clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: place, Scopes: c.Scopes}
	if c.Audience != "" {
		cc.EndpointParams = url.Values{"audience": {c.Audience}}
	}
	token, err := cc.Token(context.WithValue(ctx, oauth2.HTTPClient, a.client))
	if err != nil {
		return nil, tokenError(ctx, u.Host, err)
	}
	a.cfg.OnSecret(token.AccessToken)
	return token, nil
}

// tokenError explains why no token was obtained.
func tokenError(ctx context.Context, host string, err error) error {
	answer, answered := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case answered && (answer.Response.StatusCode == 400 || answer.Response.StatusCode == 401 || answer.Response.StatusCode == 403):
		reason := strings.TrimSpace(answer.ErrorCode + " " + answer.ErrorDescription)
		return downError{fault.New(fault.Denied, "was refused a token by %s: %s", host,
			sanitize.Line(reason+" "+answer.Response.Status, 300)).
			WithHint("check client_credentials of the server")}
	case answered:
		return fault.New(fault.Unavailable, "could not get a token: %s answered %s", host, sanitize.Line(answer.Response.Status, 100))
	}
	if _, unreached := errors.AsType[*url.Error](err); unreached {
		return downError{fault.Wrap(fault.Unavailable, err, "could not get a token from %s: %s", host, networkReason(err))}
	}
	return fault.Wrap(fault.Unavailable, err, "could not get a token: %s sent an invalid response", host)
}
