package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/oauth"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/oauth/oauthtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

func TestAuthorizeErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*oauthtest.Server)
		kind   fault.Kind
		says   string
	}{
		"refused": {func(s *oauthtest.Server) { s.AuthorizeError = "access_denied" }, fault.Denied,
			"which refused the login: access_denied"},
		"another resource": {func(s *oauthtest.Server) { s.Resource = "https://evil.example.com/mcp" }, fault.Denied,
			`has metadata for "https://evil.example.com/mcp"`},
		"a longer path": {func(s *oauthtest.Server) { s.Resource = s.URL + "/more" }, fault.Denied, "which does not match its URL"},
		"another issuer": {with("issuer", "https://evil.example.com"), fault.Denied,
			`whose metadata has the issuer "https://evil.example.com"`},
		"no proof": {with("code_challenge_methods_supported", []string{"plain"}), fault.Denied, "PKCE with S256"},
		"a token over http": {with("token_endpoint", "http://as.example.com/token"), fault.Denied,
			`whose token_endpoint "http://as.example.com/token"`},
		"a script":          {with("authorization_endpoint", "javascript:alert(1)"), fault.Denied, "whose authorization_endpoint"},
		"no token endpoint": {with("token_endpoint", ""), fault.Denied, "whose token_endpoint"},
		"rubbish":           {with("issuer", 5), fault.Unavailable, "which has no metadata"},
		"registers nobody": {func(s *oauthtest.Server) { s.NoRegistration = true }, fault.Denied,
			"which does not support client registration"},
		"no registration": {func(s *oauthtest.Server) { with("registration_endpoint", s.Issuer+"/none")(s) }, fault.Unavailable,
			"which refused client registration: it answered 404"},
		"silent and should not be": {func(s *oauthtest.Server) {
			s.OmitIssuer = true
			with("authorization_response_iss_parameter_supported", true)(s)
		}, fault.Denied, "received a redirect of another authorization server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := oauthtest.New(t)
			c.change(s)
			l := oauth.NewLogin(configOf(s, t.TempDir()))
			wantError(t, s, l.Authorize(t.Context(), oauth.Challenge{}, browser), c.kind, c.says)
			if token, err := l.Token(t.Context()); token != "" || err != nil {
				t.Errorf("got a token, or %v", err)
			}
			if s.Count("authorization_code") != 0 {
				t.Error("the authorization code was redeemed")
			}
		})
	}
}

func with(key string, value any) func(*oauthtest.Server) {
	return func(s *oauthtest.Server) { s.Metadata = func(m map[string]any) { m[key] = value } }
}

func TestTokenRequiresTLS(t *testing.T) {
	cfg := oauth.Config{Server: "far", URL: "http://mcp.example.com/mcp", Store: secret.NewStore(t.TempDir(), t.TempDir()+"/key")}
	err := oauth.NewLogin(cfg).Authorize(t.Context(), oauth.Challenge{}, browser)
	if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Message(err), "without TLS") {
		t.Error(err)
	}
}

func TestStepUpAddsScopes(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	s.Scopes = func(*http.Request, string) []string { return []string{"read"} }
	login(t, configOf(s, dir))
	l := oauth.NewLogin(configOf(s, dir))
	if err := callServer(t.Context(), s, l); err != nil {
		t.Fatal(err)
	}
	s.Change(func() { s.Scopes = func(*http.Request, string) []string { return []string{"read", "write"} } })
	err := callServer(t.Context(), s, l)
	wantError(t, s, err, fault.Denied, "needs a login with more scopes (write)")
	if !errors.Is(err, upstream.ErrInsufficientScope) {
		t.Error("the error is not ErrInsufficientScope")
	}
	login(t, configOf(s, dir)) // requests the missing scopes
	if err := callServer(t.Context(), s, l); err != nil {
		t.Error(err)
	}
}

func TestPastedRedirectURL(t *testing.T) {
	s := oauthtest.New(t)
	l := oauth.NewLogin(configOf(s, t.TempDir()))
	lines := make(chan string)
	var wrong []string
	p := oauth.Interaction{Pasted: lines, Reject: func(why string) { wrong = append(wrong, why) }}
	p.OpenURL = func(address string) {
		go func() {
			ended := remoteBrowser(address)
			for _, line := range []string{"", "no code at all", strings.Repeat("x", 1<<20), "https://example.com/", "CODE-ALONE",
				strings.Replace(ended, "state=", "state=x", 1)} {
				lines <- line
			}
			lines <- "  " + ended + "\n"
		}()
	}
	if err := l.Authorize(t.Context(), oauth.Challenge{}, p); err != nil {
		t.Fatal(err)
	}
	for i, part := range []string{"neither a code", "neither a code", "neither a code", "contains no code",
		"a code alone is not sufficient", "belongs to another login"} {
		if i >= len(wrong) || !strings.Contains(wrong[i], part) {
			t.Errorf("%q does not contain %q", wrong, part)
		}
	}
	if err := callServer(t.Context(), s, l); err != nil {
		t.Error(err)
	}
}

// remoteBrowser opens address in a browser on another machine.
func remoteBrowser(address string) string {
	ended, err := oauthtest.BrowseRemotely(address)
	if err != nil {
		return err.Error()
	}
	return ended
}

func TestPastedCodeWithoutIssuer(t *testing.T) {
	s := oauthtest.New(t)
	s.OmitIssuer = true
	lines := make(chan string, 1)
	p := oauth.Interaction{Pasted: lines, OpenURL: func(address string) {
		_, query, _ := strings.Cut(remoteBrowser(address), "code=")
		code, _, _ := strings.Cut(query, "&")
		lines <- code
	}}
	if err := oauth.NewLogin(configOf(s, t.TempDir())).Authorize(t.Context(), oauth.Challenge{}, p); err != nil {
		t.Error(err)
	}
}

func TestUnrelatedRequestsToCallback(t *testing.T) {
	s := oauthtest.New(t)
	var browser sync.WaitGroup
	p := oauth.Interaction{OpenURL: func(address string) {
		browser.Go(func() {
			ended := remoteBrowser(address)
			for _, at := range []string{strings.Replace(ended, "state=", "state=x", 1), strings.Split(ended, "?")[0],
				strings.Replace(ended, "/callback", "/favicon.ico", 1)} {
				if res, err := http.Get(at); err != nil || res.StatusCode != http.StatusNotFound {
					t.Errorf("%v, %v", res, err)
				}
			}
			if res, err := http.Get(ended); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("%v, %v", res, err)
			}
		})
	}}
	if err := oauth.NewLogin(configOf(s, t.TempDir())).Authorize(t.Context(), oauth.Challenge{}, p); err != nil {
		t.Error(err)
	}
	browser.Wait()
}

func TestLoginTimeout(t *testing.T) {
	s := oauthtest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	at := ""
	p := oauth.Interaction{OpenURL: func(address string) { at = remoteBrowser(address); cancel() }}
	wantError(t, s, oauth.NewLogin(configOf(s, t.TempDir())).Authorize(ctx, oauth.Challenge{}, p), fault.Unavailable,
		"the browser did not return in time")
	if _, err := http.Get(at); err == nil {
		t.Error("the callback server is still listening")
	}
}

func TestRedirectMustBeLoopback(t *testing.T) {
	s := oauthtest.New(t)
	for redirect, fine := range map[string]bool{
		"http://127.0.0.1/back": true, "http://localhost/": true, "http://[::1]/x": true, "https://127.0.0.1/": false,
		"http://example.com/": false, "nonsense": false,
	} {
		cfg := configOf(s, t.TempDir())
		cfg.Client.Redirect = redirect
		err := oauth.NewLogin(cfg).Authorize(t.Context(), oauth.Challenge{}, browser)
		if fine != (err == nil) && !slices.Contains([]string{"http://[::1]/x"}, redirect) { // not every machine has IPv6
			t.Errorf("%s: %v", redirect, err)
		}
	}
}
