package openapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
)

// newEchoAPI returns an API whose answer contains the credentials that it received. Its document does not
// define how a key is sent.
func newEchoAPI(t *testing.T, auth openapi.Auth) *openapi.API {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response(w, "text/plain", fmt.Sprint(r.URL.RawQuery, "|", r.Header.Get("Authorization"), "|", r.Header.Get("X-Key"), "|",
			r.Header.Get("Cookie")))
	}))
	t.Cleanup(s.Close)
	return open(t, openapi.Config{Source: openapi.Source{Auth: auth}}, at(s.URL, `
  /x:
    get: {operationId: get, parameters: [{name: q, in: query}, {name: key, in: query}, {name: x-key, in: header}, {name: c, in: cookie}]}
  /open:
    get: {operationId: open, security: []}
components: {securitySchemes: {k: {type: apiKey, in: header, name: X-Key}, b: {type: http, scheme: bearer}}}
`))
}

func TestCredentialsAreSentAsConfigured(t *testing.T) {
	for _, c := range []struct {
		auth       openapi.Auth
		args, want string
	}{
		{openapi.Auth{}, `{"q":"1"}`, "q=1|||"},
		{openapi.Auth{Bearer: "b"}, `{"q":"1"}`, "q=1|Bearer b||"},
		{openapi.Auth{Basic: &openapi.Basic{User: "u", Password: "p"}}, `{}`, "|Basic dTpw||"},
		{openapi.Auth{Key: &openapi.APIKey{Value: "k"}}, `{"x-key":"not this one"}`, "||k|"},
		{openapi.Auth{Key: &openapi.APIKey{In: "query", Name: "key", Value: "k&"}}, `{"q":"1","key":"nor this","x-key":"x"}`,
			`q=1\u0026key=k%26||x|`},
		{openapi.Auth{Key: &openapi.APIKey{In: "cookie", Name: "key", Value: "k"}}, `{"c":"1"}`, "|||c=1; key=k"},
		{openapi.Auth{Bearer: "b", Key: &openapi.APIKey{In: "query", Name: "key", Value: "k"}}, `{}`, "key=k|Bearer b||"},
	} {
		a := newEchoAPI(t, c.auth)
		wantResult(t, a, "get", c.args, `"`+c.want+`"`)
		wantResult(t, a, "open", `{}`, `"|||"`)
	}
	if in := string(definitions(t, newEchoAPI(t, openapi.Auth{Key: &openapi.APIKey{Value: "k"}}))["get"].Input); strings.Contains(in,
		"x-key") {
		t.Errorf("a configured parameter can be passed as an argument: %s", in)
	}
}

// issuer issues tokens that are valid until revoked.
type issuer struct {
	*httptest.Server
	mu      sync.Mutex
	good    string
	given   int
	answer  func(w http.ResponseWriter, r *http.Request) bool
	expires int
}

func (s *issuer) token(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil && s.answer(w, r) {
		return
	}
	id, secret, basic := r.BasicAuth()
	if !basic || id != "me" || secret != "sesame" || r.Form.Get("grant_type") != "client_credentials" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(401)
		fmt.Fprint(w, `{"error":"invalid_client","error_description":"who are you"}`)
		return
	}
	s.given++
	s.good = fmt.Sprintf("token-%d-%s-%s", s.given, r.Form.Get("scope"), r.Form.Get("audience"))
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"access_token": s.good, "token_type": "bearer", "expires_in": s.expires})
}

func (s *issuer) revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good = "none"
}

func clients(t *testing.T, secret string) (*issuer, *openapi.API) {
	t.Helper()
	s := &issuer{expires: 3600}
	mux := http.NewServeMux()
	mux.HandleFunc("/token", s.token)
	mux.HandleFunc("/x", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+s.good {
			w.WriteHeader(401)
			return
		}
		response(w, "text/plain", r.Method)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	hidden := map[string]bool{}
	cfg := openapi.Config{OnSecret: func(secret string) { hidden[secret] = true }}
	cfg.Auth.Client = &openapi.ClientCredentials{ID: "me", Secret: secret, Scopes: []string{"a", "b"}, Audience: "aud"}
	t.Cleanup(func() {
		if s.given > 0 && !hidden["token-1-a b-aud"] {
			t.Error("the token is not redacted")
		}
	})
	return s, open(t, cfg, at(s.URL, `
  /x: {get: {operationId: get}, post: {operationId: post, requestBody: {content: {application/json: {}}}}}
components: {securitySchemes: {o: {type: oauth2, flows: {clientCredentials: {tokenUrl: '`+s.URL+`/token', scopes: {}}}}}}
`))
}

func TestTokenIsReusedUntilRevoked(t *testing.T) {
	s, a := clients(t, "sesame")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { wantResult(t, a, "get", `{}`, `"GET"`) })
	}
	all.Wait()
	if s.given != 1 {
		t.Errorf("%d tokens for 20 calls", s.given)
	}
	s.revoke()
	for range 20 {
		all.Go(func() { wantResult(t, a, "post", `{"body":1}`, `"POST"`) })
	}
	all.Wait()
	if s.given != 2 {
		t.Errorf("%d tokens after one was revoked", s.given)
	}
}

func TestExpiredTokenIsReplaced(t *testing.T) {
	s, a := clients(t, "sesame")
	s.expires = -1
	wantResult(t, a, "get", `{}`, `"GET"`)
	wantResult(t, a, "get", `{}`, `"GET"`)
	if s.given != 2 {
		t.Errorf("%d tokens", s.given)
	}
}

func TestTokenRequestErrors(t *testing.T) {
	s, a := clients(t, "wrong")
	wantFailure(t, a, "get", `{}`, "was refused a token by "+strings.TrimPrefix(s.URL,
		"http://")+": invalid_client who are you 401 Unauthorized | check client_credentials")
	for want, answer := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"answered 500 Internal Server Error": func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true },
		"sent an invalid response": func(w http.ResponseWriter,
			_ *http.Request) bool {
			response(w, "text/html", "<html>")
			return true
		},
	} {
		s.mu.Lock()
		s.answer = answer
		s.mu.Unlock()
		wantFailure(t, a, "get", `{}`, want)
	}
}

func TestRepeatedlyRefusedTokenFails(t *testing.T) {
	s, a := clients(t, "sesame")
	var tries atomic.Int32
	s.answer = func(w http.ResponseWriter, r *http.Request) bool {
		tries.Add(1)
		response(w, "application/json", `{"access_token":"token-1-a b-aud","token_type":"bearer","expires_in":3600}`)
		s.given = 1
		return true
	}
	wantFailure(t, a, "get", `{}`, "answered 401 Unauthorized (the API rejected the configured credentials)")
	if tries.Load() != 2 {
		t.Errorf("%d tokens for one call", tries.Load())
	}
}

func TestMissingSecretIsReported(t *testing.T) {
	cfg := openapi.Config{Resolve: func(_ context.Context, what, value string) (string, error) {
		if strings.HasPrefix(value, "${") {
			return "", fault.New(fault.Invalid, "has no value for its %s", what)
		}
		return value, nil
	}}
	for what, auth := range map[string]openapi.Auth{
		"auth.bearer":         {Bearer: "${T}"},
		"auth.basic.password": {Basic: &openapi.Basic{User: "u", Password: "${T}"}},
		"auth.key.value":      {Key: &openapi.APIKey{In: "header", Name: "K", Value: "${T}"}},
		"auth.client_credentials.client_secret": {Client: &openapi.ClientCredentials{TokenURL: "http://127.0.0.1:1", ID: "x",
			Secret: "${T}"}},
	} {
		cfg.Auth = auth
		wantFailure(t, open(t, cfg, at("http://127.0.0.1:1", "  /x: {get: {operationId: get}}\n")), "get", `{}`,
			"has no value for its "+what)
	}
}

func TestErrorMentionsCredentialsOnlyIfSent(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) }))
	defer s.Close()
	const paths = "  /x: {get: {operationId: get}}\n  /open: {get: {operationId: open, security: []}}\n"
	a := open(t, openapi.Config{Source: openapi.Source{Headers: map[string]string{"X-Version": "2"}}}, at(s.URL, paths))
	wantFailure(t, a, "get", `{}`, "(no credentials are configured for it")
	a = open(t, openapi.Config{Source: openapi.Source{Auth: openapi.Auth{Bearer: "b"}}}, at(s.URL, paths))
	wantFailure(t, a, "get", `{}`, "(the API rejected the configured credentials)")
	wantFailure(t, a, "open", `{}`, "(no credentials were sent, because the document declares that this operation needs none)")
}
