// Package oauthtest provides an authorization server and an MCP server that requires its tokens, both
// on the loopback interface, for tests.
//
// The authorization server registers clients and checks PKCE verifiers, redirect URIs, resources and
// client secrets. Codes and refresh tokens are valid once; the reuse of a refresh token ends all tokens
// of its login. It supports revocation. Its user grants every request.
package oauthtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is both servers. Set its fields before the first request, or later with Change.
type Server struct {
	URL    string // of the MCP server
	Issuer string // URL of the authorization server

	Lifetime       time.Duration                                     // of access tokens; 0 means an hour
	Client         string                                            // id of a registered client; its secret is "s3cret-" and the id
	NoRegistration bool                                              // client registration is not supported
	JWT            bool                                              // access tokens are JWTs, which cannot be revoked
	OmitIssuer     bool                                              // authorization responses lack iss
	AuthorizeError string                                            // error of authorization responses; "" means success
	Scopes         func(r *http.Request, method string) []string     // scopes that a request needs; nil means none
	Token          func(w http.ResponseWriter, r *http.Request) bool // replaces the token endpoint if it returns true
	Metadata       func(m map[string]any)                            // changes the metadata of the authorization server
	Resource       string                                            // resource in the metadata of the MCP server; "" means URL

	mu      sync.Mutex
	clients map[string]client
	codes   map[string]grant
	access  map[string]grant
	refresh map[string]grant
	spent   map[string]string // used refresh token -> login
	count   map[string]int
	secrets []string
}

type client struct {
	secret, method string
	redirects      []string
}

// grant is an authorization of a client by the user.
type grant struct {
	login, client, resource, redirect, challenge string
	scopes                                       []string
	end                                          time.Time
}

// New starts both servers and closes them when the test ends.
func New(t testing.TB) *Server {
	s := &Server{clients: map[string]client{}, codes: map[string]grant{}, access: map[string]grant{}, refresh: map[string]grant{},
		spent: map[string]string{}, count: map[string]int{}}
	as := http.NewServeMux()
	as.HandleFunc("GET /.well-known/oauth-authorization-server", s.metadata)
	as.HandleFunc("POST /register", s.register)
	as.HandleFunc("GET /authorize", s.authorize)
	as.HandleFunc("POST /token", s.token)
	as.HandleFunc("POST /revoke", s.revoke)
	rs := http.NewServeMux()
	rs.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", s.describe)
	rs.HandleFunc("/mcp", s.mcp)
	issuer, resource := httptest.NewUnstartedServer(as), httptest.NewUnstartedServer(rs)
	s.Issuer, s.URL = "http://"+issuer.Listener.Addr().String(), "http://"+resource.Listener.Addr().String()+"/mcp"
	for _, server := range []*httptest.Server{issuer, resource} { // handlers read Issuer and URL
		server.Start()
		t.Cleanup(server.Close)
	}
	return s
}

// Change calls f, which may set fields while the servers run.
func (s *Server) Change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Count returns the number of events of a kind: "register", "authorize", a grant type, "revoke",
// "reuse" (of a refresh token), "call".
func (s *Server) Count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[what]
}

// Expire ends all access tokens; refresh ends the refresh tokens as well.
func (s *Server) Expire(refresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
	if refresh {
		clear(s.refresh)
	}
}

// Forget deletes all registered clients.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.clients)
}

// Tokens returns the numbers of valid tokens.
func (s *Server) Tokens() (access, refresh int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.access), len(s.refresh)
}

// Secrets returns all codes and tokens that were ever issued.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.secrets)
}

// Browse opens address as a browser whose user grants the request. It follows all redirects and
// returns the last address.
func Browse(address string) (string, error) {
	last := address
	c := http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		last = r.URL.String()
		return nil
	}}
	res, err := c.Get(address)
	if err == nil {
		res.Body.Close()
	}
	return last, err
}

// BrowseRemotely is Browse for a browser on another machine, which cannot open the final redirect. It
// returns that address.
func BrowseRemotely(address string) (string, error) {
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Get(address)
	if err != nil {
		return "", err
	}
	res.Body.Close()
	return res.Header.Get("Location"), nil
}

func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[string]any{
		"issuer": s.Issuer, "authorization_endpoint": s.Issuer + "/authorize", "token_endpoint": s.Issuer + "/token",
		"revocation_endpoint": s.Issuer + "/revoke", "response_types_supported": []string{"code"},
		"code_challenge_methods_supported": []string{"S256"}, "scopes_supported": []string{"read", "write", "offline_access"},
		"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_basic", "client_secret_post"},
		"authorization_response_iss_parameter_supported": !s.OmitIssuer,
	}
	if !s.NoRegistration {
		m["registration_endpoint"] = s.Issuer + "/register"
	}
	if s.Metadata != nil {
		s.Metadata(m)
	}
	answer(w, http.StatusOK, m)
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var want struct {
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
	}
	if json.NewDecoder(r.Body).Decode(&want) != nil || len(want.Redirects) == 0 {
		fail(w, "invalid_client_metadata", "no redirect_uris")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count["register"]++
	id := "client-" + rand.Text()
	s.clients[id] = client{method: want.Method, redirects: want.Redirects}
	answer(w, http.StatusCreated, map[string]any{"client_id": id, "token_endpoint_auth_method": want.Method,
		"redirect_uris": want.Redirects})
}

func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count["authorize"]++
	c, known := s.clients[q.Get("client_id")]
	switch {
	case !known && q.Get("client_id") != s.Client || known && !slices.Contains(c.redirects, q.Get("redirect_uri")):
		http.Error(w, "unknown client", http.StatusBadRequest)
		return
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" ||
		q.Get("resource") != s.URL:
		http.Error(w, "incomplete request", http.StatusBadRequest)
		return
	}
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		http.Error(w, "invalid redirect_uri", http.StatusBadRequest)
		return
	}
	v := url.Values{"state": {q.Get("state")}}
	if !s.OmitIssuer {
		v.Set("iss", s.Issuer)
	}
	if s.AuthorizeError != "" {
		v.Set("error", s.AuthorizeError)
	} else {
		code := s.secret("code-")
		s.codes[code] = grant{login: rand.Text(), client: q.Get("client_id"), resource: q.Get("resource"), redirect: q.Get("redirect_uri"),
			challenge: q.Get("code_challenge"), scopes: strings.Fields(q.Get("scope"))}
		v.Set("code", code)
	}
	back.RawQuery = v.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (s *Server) secret(prefix string) string {
	text := prefix + rand.Text()
	s.secrets = append(s.secrets, text)
	return text
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	other := s.Token
	s.mu.Unlock()
	if other != nil && other(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.authenticated(r)
	if !ok {
		_, secret, _ := r.BasicAuth()
		fail(w, "invalid_client", "unknown client with secret "+secret+r.PostFormValue("client_secret"))
		return
	}
	kind := r.PostFormValue("grant_type")
	s.count[kind]++
	var g grant
	switch kind {
	case "authorization_code":
		code := r.PostFormValue("code")
		g, ok = s.codes[code]
		delete(s.codes, code)
		proof := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		ok = ok && g.redirect == r.PostFormValue("redirect_uri") && g.challenge == base64.RawURLEncoding.EncodeToString(proof[:])
	case "refresh_token":
		g, ok = s.redeem(r.PostFormValue("refresh_token"))
	case "client_credentials":
		g = grant{login: rand.Text(), client: id, resource: r.PostFormValue("resource"), scopes: strings.Fields(r.PostFormValue("scope"))}
	}
	if !ok || g.client != id || g.resource != r.PostFormValue("resource") {
		fail(w, "invalid_grant", "expired: "+r.PostFormValue("refresh_token"))
		return
	}
	s.issue(w, g, kind != "client_credentials")
}

// redeem returns the grant of a refresh token, which is valid once.
func (s *Server) redeem(token string) (grant, bool) {
	if login, spent := s.spent[token]; spent {
		s.count["reuse"]++
		end := func(_ string, g grant) bool { return g.login == login }
		deleteFunc(s.access, end)
		deleteFunc(s.refresh, end)
		return grant{}, false
	}
	g, ok := s.refresh[token]
	if ok {
		delete(s.refresh, token)
		s.spent[token] = g.login
	}
	return g, ok
}

func deleteFunc(m map[string]grant, del func(string, grant) bool) {
	for k, v := range m {
		if del(k, v) {
			delete(m, k)
		}
	}
}

func (s *Server) issue(w http.ResponseWriter, g grant, renewable bool) {
	life := s.Lifetime
	if life == 0 {
		life = time.Hour
	}
	g.end = time.Now().Add(life)
	access := s.secret("access-")
	s.access[access] = g
	m := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": int(life / time.Second),
		"scope": strings.Join(g.scopes, " ")}
	if renewable {
		refresh := s.secret("refresh-")
		s.refresh[refresh] = g
		m["refresh_token"] = refresh
	}
	answer(w, http.StatusOK, m)
}

// authenticated returns the client id of a request and whether its secret is correct.
func (s *Server) authenticated(r *http.Request) (id string, ok bool) {
	id, secret, inHeader := r.BasicAuth()
	if !inHeader {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if s.Client != "" && id == s.Client {
		return id, secret == "s3cret-"+id
	}
	c, ok := s.clients[id]
	return id, ok && secret == c.secret
}

func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.authenticated(r); !ok {
		fail(w, "invalid_client", "")
		return
	}
	s.count["revoke"]++
	if _, access := s.access[r.PostFormValue("token")]; access && s.JWT {
		fail(w, "unsupported_token_type", "not "+r.PostFormValue("token"))
		return
	}
	delete(s.access, r.PostFormValue("token"))
	delete(s.refresh, r.PostFormValue("token"))
}

func answer(w http.ResponseWriter, code int, m map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(m)
}

// fail writes an error response. Callers put secrets into the description, to test that they are
// redacted.
func fail(w http.ResponseWriter, code, description string) {
	answer(w, http.StatusBadRequest, map[string]any{"error": code, "error_description": description})
}
