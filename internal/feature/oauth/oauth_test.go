package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/oauth"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/oauth/oauthtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

func configOf(s *oauthtest.Server, dir string) oauth.Config {
	return oauth.Config{Server: "guarded", URL: s.URL, Store: secret.NewStore(filepath.Join(dir, "logins"), filepath.Join(dir, "key"))}
}

// browser is a browser on this machine whose user grants every request.
var browser = oauth.Interaction{OpenURL: func(address string) { go oauthtest.Browse(address) }}

// login returns a Login that has been authorized.
func login(t testing.TB, cfg oauth.Config) *oauth.Login {
	t.Helper()
	l := oauth.NewLogin(cfg)
	if err := l.Authorize(t.Context(), oauth.Challenge{}, browser); err != nil {
		t.Fatal(err)
	}
	return l
}

var errRefused = errors.New("the server answered")

// callServer calls the server with the token of l and renews it as a connection does.
func callServer(ctx context.Context, s *oauthtest.Server, l interface {
	Token(context.Context) (string, error)
	Renew(context.Context, string, oauth.Challenge) error
}) error {
	for tries := 0; ; tries++ {
		token, err := l.Token(ctx)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(`{"id":1,"method":"tools/list"}`))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return nil
		}
		if tries > 2 {
			return fmt.Errorf("%w %d", errRefused, res.StatusCode)
		}
		c := oauth.Challenge{AfterRenewal: tries > 0, InsufficientScope: res.StatusCode == http.StatusForbidden, Metadata: "x"}
		if c.InsufficientScope {
			c.Scopes = []string{"write"}
		}
		if err := l.Renew(ctx, token, c); err != nil {
			return err
		}
	}
}

// wantError checks the displayed text of an error, and that it contains no secret.
func wantError(t testing.TB, s *oauthtest.Server, err error, kind fault.Kind, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %s", parts)
		return
	}
	shown := fault.Message(err) + " / " + fault.Hint(err)
	for _, part := range parts {
		if !strings.Contains(shown, part) {
			t.Errorf("%q does not contain %q", shown, part)
		}
	}
	if fault.KindOf(err) != kind {
		t.Errorf("%q has kind %s, want %s", shown, fault.KindOf(err), kind)
	}
	for _, hidden := range append(s.Secrets(), "s3cret-app") {
		if strings.Contains(shown+err.Error(), hidden) {
			t.Errorf("%q contains a secret", err)
		}
	}
}

func TestLoginIsStoredRenewedAndExpires(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	cfg := configOf(s, dir)
	wantError(t, s, callServer(t.Context(), s, oauth.NewLogin(cfg)), fault.Denied, "needs a login", "sandpiper tools login guarded")
	login(t, cfg)
	l := oauth.NewLogin(cfg) // in another process
	if err := callServer(t.Context(), s, l); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.Expire(false)
		if err := callServer(t.Context(), s, l); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Count("refresh_token"); n != 3 || s.Count("register") != 1 || s.Count("reuse") != 0 {
		t.Errorf("%d renewals, %d registrations, %d reuses", n, s.Count("register"), s.Count("reuse"))
	}
	s.Expire(true)
	for range 3 { // requested once and then cached
		wantError(t, s, callServer(t.Context(), s, l), fault.Denied, "needs a new login", "tools login guarded")
	}
	if n := s.Count("refresh_token"); n != 4 {
		t.Errorf("%d renewals", n)
	}
	login(t, cfg)
	if err := callServer(t.Context(), s, l); err != nil {
		t.Errorf("the login of another process is not used: %v", err)
	}
}

func TestTokenIsRenewedBeforeExpiry(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	cfg := configOf(s, dir)
	l := login(t, cfg)
	setExpiry(t, cfg, 9*time.Second)
	if err := callServer(t.Context(), s, l); err != nil || s.Count("refresh_token") != 1 {
		t.Errorf("%d renewals, %v", s.Count("refresh_token"), err)
	}
	setExpiry(t, cfg, 9*time.Second)
	s.Change(func() { s.Token = broken(http.StatusServiceUnavailable, "") })
	if err := callServer(t.Context(), s, l); err != nil {
		t.Errorf("a valid token was not used: %v", err)
	}
}

// setExpiry changes the stored token so that it expires in left and was issued an hour ago.
func setExpiry(t *testing.T, cfg oauth.Config, left time.Duration) {
	t.Helper()
	name := "login " + cfg.Server
	text, err := cfg.Store.Find(name)
	var record map[string]any
	if err = errors.Join(err, json.Unmarshal(text, &record)); err != nil {
		t.Fatal(err)
	}
	record["given"], record["expiry"] = time.Now().Add(-time.Hour), time.Now().Add(left)
	text, err = json.Marshal(record)
	if err = errors.Join(err, cfg.Store.Put(name, text)); err != nil {
		t.Fatal(err)
	}
}

func TestShortLivedTokenIsReused(t *testing.T) {
	s := oauthtest.New(t)
	s.Lifetime = 6 * time.Second
	s.Client = "app"
	cfg := configOf(s, t.TempDir())
	l := login(t, cfg)
	cfg.Client = oauth.Client{ID: "app", Secret: "s3cret-app"}
	m := oauth.NewClientCredentials(cfg)
	began := time.Now()
	for range 12 {
		if err := errors.Join(callServer(t.Context(), s, l), callServer(t.Context(), s, m)); err != nil {
			t.Fatal(err)
		}
	}
	most := int(time.Since(began)/(5*time.Second)) + 1
	if n, given := s.Count("refresh_token"), s.Count("client_credentials"); n >= most || given > most {
		t.Errorf("%d renewals and %d tokens for 12 calls in %v", n, given, time.Since(began))
	}
}

func TestFailedRenewalKeepsValidToken(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	cfg := configOf(s, dir)
	l := login(t, cfg)
	s.Change(func() { s.Token = broken(http.StatusBadRequest, `{"error":"invalid_grant"}`) })
	setExpiry(t, cfg, 9*time.Second)
	if err := callServer(t.Context(), s, l); err != nil {
		t.Errorf("a valid token was not used: %v", err)
	}
	loggedInAgain := func() {
		s.Change(func() { s.Token = nil })
		login(t, cfg)
		s.Change(func() { s.Token = broken(http.StatusBadRequest, `{"error":"invalid_grant"}`) })
	}
	loggedInAgain()
	setExpiry(t, cfg, -time.Second)
	wantError(t, s, callServer(t.Context(), s, l), fault.Denied, "needs a new login: its token has expired, and http://127.0.0.1",
		"does not renew it: it returned invalid_grant")
	loggedInAgain()
	s.Expire(false)
	wantError(t, s, callServer(t.Context(), s, l), fault.Denied, "needs a new login: its token was rejected, and http://127.0.0.1")
}

func TestLoginsShareRegistration(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	cfg := configOf(s, dir)
	for range 3 {
		login(t, cfg)
	}
	if _, err := oauth.NewLogin(cfg).Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := oauth.NewLogin(cfg)
	if l.Requested() {
		t.Error("a registration without a login counts as a login")
	}
	wantError(t, s, callServer(t.Context(), s, l), fault.Denied, "needs a login")
	login(t, cfg)
	if err := callServer(t.Context(), s, l); err != nil || s.Count("register") != 1 || s.Count("authorize") != 4 {
		t.Errorf("%d registrations for %d logins, %v", s.Count("register"), s.Count("authorize"), err)
	}

	// The port is in use, and the server compares ports.
	var record struct{ Registration struct{ Redirect string } }
	text, err := cfg.Store.Find("login guarded")
	if err = errors.Join(err, json.Unmarshal(text, &record)); err != nil {
		t.Fatal(err)
	}
	port, err := net.Listen("tcp", strings.TrimSuffix(strings.TrimPrefix(record.Registration.Redirect, "http://"), "/callback"))
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	login(t, cfg)
	if s.Count("register") != 2 {
		t.Errorf("%d registrations", s.Count("register"))
	}

	// The server has deleted the client, which only the browser reports.
	s.Forget()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	wantError(t, s, oauth.NewLogin(cfg).Authorize(ctx, oauth.Challenge{}, browser), fault.Unavailable, "the browser did not return")
	login(t, cfg)
	if s.Count("register") != 3 {
		t.Errorf("%d registrations", s.Count("register"))
	}

	// More scopes than were registered.
	if err := oauth.NewLogin(cfg).Authorize(t.Context(), oauth.Challenge{Scopes: []string{"admin"}}, browser); err != nil ||
		s.Count("register") != 4 {
		t.Errorf("%d registrations, %v", s.Count("register"), err)
	}
	for _, want := range []string{"", "has no login"} { // the second logout deletes the client
		if _, err := oauth.NewLogin(cfg).Logout(t.Context()); (err == nil) != (want == "") {
			t.Error(err)
		}
	}
	login(t, cfg)
	if s.Count("register") != 5 {
		t.Errorf("%d registrations", s.Count("register"))
	}
}

func TestLogoutIgnoresUnrevocableToken(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	s.JWT = true
	l := login(t, configOf(s, dir))
	if unrevoked, err := l.Logout(t.Context()); unrevoked != nil || err != nil || s.Count("revoke") != 2 {
		t.Error(unrevoked, err, s.Count("revoke"))
	}
	login(t, configOf(s, dir))
	s.Forget() // otherwise Logout reports the failure
	unrevoked, err := oauth.NewLogin(configOf(s, dir)).Logout(t.Context())
	if err != nil {
		t.Error(err)
	}
	wantError(t, s, unrevoked, fault.Unavailable, "did not revoke its tokens: it returned invalid_client")
}

func broken(code int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(body, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
		return true
	}
}

func TestConcurrentRenewal(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	login(t, configOf(s, dir))
	processes := []*oauth.Login{oauth.NewLogin(configOf(s, dir)), oauth.NewLogin(configOf(s, dir)), oauth.NewLogin(configOf(s, dir))}
	const rounds = 10
	for range rounds {
		s.Expire(false)
		var all sync.WaitGroup
		for i := range 24 {
			all.Go(func() {
				if err := callServer(t.Context(), s, processes[i%len(processes)]); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if n := s.Count("refresh_token"); n != rounds || s.Count("reuse") != 0 {
		t.Errorf("%d renewals in %d rounds, %d reuses", n, rounds, s.Count("reuse"))
	}
}

// callRepeatedly calls the server repeatedly. Other tests expire all tokens at any time, so a new token
// may be refused before its first use.
func callRepeatedly(ctx context.Context, s *oauthtest.Server, dir string, before func()) error {
	for range 30 {
		before()
		err := callServer(ctx, s, oauth.NewLogin(configOf(s, dir)))
		if err != nil && !strings.Contains(fault.Message(err), "rejects a new token") && !errors.Is(err, errRefused) {
			return err
		}
	}
	return nil
}

// TestMain also runs this binary as a process that uses a login concurrently with its parent.
func TestMain(m *testing.M) {
	if url := os.Getenv("OAUTH_TEST_URL"); url != "" {
		if err := callRepeatedly(context.Background(), &oauthtest.Server{URL: url}, os.Getenv("OAUTH_TEST_DIR"), func() {}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestProcessesRenewSequentially(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	login(t, configOf(s, dir))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), "OAUTH_TEST_URL="+s.URL, "OAUTH_TEST_DIR="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	if err := callRepeatedly(t.Context(), s, dir, func() { s.Expire(false) }); err != nil {
		t.Error(err)
	}
	others.Wait()
	if err := callServer(t.Context(), s, oauth.NewLogin(configOf(s, dir))); err != nil || s.Count("reuse") != 0 ||
		s.Count("refresh_token") == 0 {
		t.Errorf("%d reuses, %d renewals, %v", s.Count("reuse"), s.Count("refresh_token"), err)
	}
}

func TestTokenEndpointErrors(t *testing.T) {
	for name, c := range map[string]struct {
		token func(http.ResponseWriter, *http.Request) bool
		kind  fault.Kind
		says  string
	}{
		"down": {broken(http.StatusServiceUnavailable, ""), fault.Unavailable,
			"which issued no token: it answered 503 Service Unavailable"},
		"a page":    {broken(http.StatusOK, "<html>log in</html>"), fault.Unavailable, "its response is malformed"},
		"nothing":   {broken(http.StatusOK, "{}"), fault.Unavailable, "its response is malformed"},
		"no header": {broken(http.StatusOK, `{"access_token":"a\nb"}`), fault.Unavailable, "its response is malformed"},
		"no bearer": {broken(http.StatusOK, `{"access_token":"a","token_type":"DPoP"}`), fault.Unavailable, "its response is malformed"},
		"endless": {broken(http.StatusOK, `{"access_token":"`+strings.Repeat("x", 2<<20)), fault.Unavailable,
			"its response is malformed"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
			return true
		}, fault.Unavailable, "it redirects to another host"},
		"control": {broken(http.StatusBadRequest, `{"error":"server_error","error_description":"\u001b[31moops"}`), fault.Unavailable,
			"it returned server_error (oops)"},
		"closed": {func(w http.ResponseWriter, _ *http.Request) bool {
			panic(http.ErrAbortHandler)
		}, fault.Unavailable, "which issued no token"},
		"revoked": {nil, fault.Denied, "does not renew it: it returned invalid_grant (expired: [secret])"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := oauthtest.New(t)
			l := login(t, configOf(s, t.TempDir()))
			s.Expire(c.token == nil)
			s.Change(func() { s.Token = c.token })
			err := callServer(t.Context(), s, l)
			wantError(t, s, err, c.kind, c.says)
			if err := callServer(t.Context(), s, l); err == nil {
				t.Error("the second request succeeded")
			}
		})
	}
}

func TestHungTokenEndpointRespectsContext(t *testing.T) {
	s := oauthtest.New(t)
	l := login(t, configOf(s, t.TempDir()))
	s.Expire(false)
	asked, ends := make(chan struct{}), make(chan struct{})
	defer close(ends)
	s.Change(func() {
		s.Token = func(http.ResponseWriter, *http.Request) bool { close(asked); <-ends; return true }
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if err := callServer(ctx, s, l); err == nil {
		t.Error("the request succeeded")
	}
}

func TestConfiguredClientSecretIsNotStored(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	s.Client, s.NoRegistration = "app", true
	cfg := configOf(s, dir)
	cfg.Client = oauth.Client{ID: "app", Secret: "s3cret-app", Issuer: s.Issuer, Scopes: []string{"read"}}
	l := login(t, cfg)
	s.Expire(false)
	if err := callServer(t.Context(), s, l); err != nil || s.Count("register") != 0 {
		t.Errorf("%d registrations, %v", s.Count("register"), err)
	}
	cfg.Client.Secret = "wrong"
	s.Expire(false)
	wantError(t, s, callServer(t.Context(), s, oauth.NewLogin(cfg)), fault.Denied, "does not renew it: it returned invalid_client")
	cfg.Client.Secret = "s3cret-app"
	if err := callServer(t.Context(), s, oauth.NewLogin(cfg)); err != nil {
		t.Errorf("the login is lost after a wrong secret: %v", err)
	}
	other := cfg
	other.Client.Issuer = "https://other.example.com"
	wantError(t, s, oauth.NewLogin(other).Authorize(t.Context(), oauth.Challenge{}, browser), fault.Denied,
		"is registered with https://other.example.com")
	other = cfg
	other.Client.ID = "another"
	wantError(t, s, callServer(t.Context(), s, oauth.NewLogin(other)), fault.Denied, "needs a login")
}

func TestLoginIsBoundToURL(t *testing.T) {
	s, other, dir := oauthtest.New(t), oauthtest.New(t), t.TempDir()
	login(t, configOf(s, dir))
	if token, err := oauth.NewLogin(configOf(other, dir)).Token(t.Context()); token != "" || err != nil {
		t.Errorf("the token was sent to another address, %v", err)
	}
}

func TestLostKeyIsReportedAndLoginReplacesIt(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	l := login(t, configOf(s, dir))
	if err := os.Remove(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	again := oauth.NewLogin(configOf(s, dir))
	wantError(t, s, callServer(t.Context(), s, again), fault.Denied, "needs a new login: the stored one cannot be decrypted",
		"tools login guarded")
	login(t, configOf(s, dir))
	if err := errors.Join(callServer(t.Context(), s, again), callServer(t.Context(), s, l)); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	if unrevoked, err := oauth.NewLogin(configOf(s, dir)).Logout(t.Context()); err != nil || unrevoked == nil {
		t.Errorf("%v, %v", unrevoked, err)
	}
}

func TestLogoutRevokesTokens(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	l := login(t, configOf(s, dir))
	running := oauth.NewLogin(configOf(s, dir))
	if err := callServer(t.Context(), s, running); err != nil {
		t.Fatal(err)
	}
	if unrevoked, err := l.Logout(t.Context()); unrevoked != nil || err != nil {
		t.Error(unrevoked, err)
	}
	if access, refresh := s.Tokens(); access != 0 || refresh != 0 {
		t.Errorf("%d and %d tokens are left", access, refresh)
	}
	if token, err := running.Token(t.Context()); token != "" || err != nil {
		t.Errorf("another process still has the login, %v", err)
	}
	_, err := l.Logout(t.Context())
	wantError(t, s, err, fault.NotFound, "has no login")

	login(t, configOf(s, dir))
	s.Change(func() { s.Client = "" })
	cfg := configOf(s, dir)
	with("revocation_endpoint", "")(s)
	login(t, cfg)
	unrevoked, err := oauth.NewLogin(cfg).Logout(t.Context())
	if err != nil {
		t.Error(err)
	}
	wantError(t, s, unrevoked, fault.Unavailable, "which does not support revocation")
}

func TestClientCredentials(t *testing.T) {
	s := oauthtest.New(t)
	s.Client = "app"
	s.Scopes = func(*http.Request, string) []string { return []string{"read"} }
	cfg := configOf(s, "")
	cfg.Store = nil
	cfg.Client = oauth.Client{ID: "app", Secret: "s3cret-app"}
	m := oauth.NewClientCredentials(cfg)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if err := callServer(t.Context(), s, m); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.Count("client_credentials"); n != 1 {
		t.Errorf("%d tokens for all processes", n)
	}
	s.Expire(false)
	s.Change(func() { s.Scopes = func(*http.Request, string) []string { return []string{"read", "write"} } })
	if err := callServer(t.Context(), s, m); err != nil {
		t.Error(err)
	}
	cfg.Client.Secret = "wrong-s3cret"
	wantError(t, s, callServer(t.Context(), s, oauth.NewClientCredentials(cfg)), fault.Denied,
		"which issued no token: it returned invalid_client (unknown client with secret [secret])", "check client_id")
	s.Change(func() { s.Token = broken(http.StatusBadGateway, "") })
	cfg.Client.Secret = "s3cret-app"
	wantError(t, s, callServer(t.Context(), s, oauth.NewClientCredentials(cfg)), fault.Unavailable, "it answered 502")
}
