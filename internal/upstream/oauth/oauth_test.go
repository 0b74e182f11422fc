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
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/oauth"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/oauth/oauthtest"
)

func config(s *oauthtest.Server, dir string) oauth.Config {
	return oauth.Config{Server: "guarded", URL: s.URL, Safe: secret.NewStore(filepath.Join(dir, "logins"), filepath.Join(dir, "key"))}
}

// agrees is a person whose browser is on this machine.
var agrees = oauth.Interaction{OpenURL: func(address string) { go oauthtest.Browse(address) }}

// loggedIn is a login that somebody made.
func loggedIn(t testing.TB, cfg oauth.Config) *oauth.Login {
	t.Helper()
	l := oauth.NewLogin(cfg)
	if err := l.Authorize(t.Context(), oauth.Challenge{}, agrees); err != nil {
		t.Fatal(err)
	}
	return l
}

var errRefused = errors.New("the server answered")

// admitted asks the server with the token of l, renewing it as a connection does.
func admitted(ctx context.Context, s *oauthtest.Server, l interface {
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

// says checks what an error shows, and that it shows no secret.
func hasErrorCode(t testing.TB, s *oauthtest.Server, err error, kind fault.Kind, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %s", parts)
		return
	}
	shown := fault.Message(err) + " / " + fault.Hint(err)
	for _, part := range parts {
		if !strings.Contains(shown, part) {
			t.Errorf("%q does not say %q", shown, part)
		}
	}
	if fault.KindOf(err) != kind {
		t.Errorf("%q is %s, want %s", shown, fault.KindOf(err), kind)
	}
	for _, hidden := range append(s.Secrets(), "s3cret-app") {
		if strings.Contains(shown+err.Error(), hidden) {
			t.Errorf("%q shows a secret", err)
		}
	}
}

func TestALoginIsKeptRenewedAndEnds(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	cfg := config(s, dir)
	hasErrorCode(t, s, admitted(t.Context(), s, oauth.NewLogin(cfg)), fault.Denied, "needs a login", "sandpiper tools login guarded")
	loggedIn(t, cfg)
	l := oauth.NewLogin(cfg) // of another process
	if err := admitted(t.Context(), s, l); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.Expire(false)
		if err := admitted(t.Context(), s, l); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Count("refresh_token"); n != 3 || s.Count("register") != 1 || s.Count("theft") != 0 {
		t.Errorf("%d renewals, %d registrations, %d thefts", n, s.Count("register"), s.Count("theft"))
	}
	s.Expire(true)
	for range 3 { // asked for once, and then it is known
		hasErrorCode(t, s, admitted(t.Context(), s, l), fault.Denied, "needs a new login", "tools login guarded")
	}
	if n := s.Count("refresh_token"); n != 4 {
		t.Errorf("%d renewals", n)
	}
	loggedIn(t, cfg)
	if err := admitted(t.Context(), s, l); err != nil {
		t.Errorf("the login of another process is not seen: %v", err)
	}
}

func TestATokenIsRenewedBeforeItEnds(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	cfg := config(s, dir)
	l := loggedIn(t, cfg)
	ends(t, cfg, 9*time.Second)
	if err := admitted(t.Context(), s, l); err != nil || s.Count("refresh_token") != 1 {
		t.Errorf("%d renewals, %v", s.Count("refresh_token"), err)
	}
	ends(t, cfg, 9*time.Second)
	s.Change(func() { s.Token = broken(http.StatusServiceUnavailable, "") })
	if err := admitted(t.Context(), s, l); err != nil {
		t.Errorf("a token that is good still was not used: %v", err)
	}
}

// ends gives the token that is kept so long from now, as if it had come an hour ago.
func ends(t *testing.T, cfg oauth.Config, left time.Duration) {
	t.Helper()
	name := "login " + cfg.Server
	text, err := cfg.Safe.Find(name)
	var record map[string]any
	if err = errors.Join(err, json.Unmarshal(text, &record)); err != nil {
		t.Fatal(err)
	}
	record["given"], record["expiry"] = time.Now().Add(-time.Hour), time.Now().Add(left)
	text, err = json.Marshal(record)
	if err = errors.Join(err, cfg.Safe.Put(name, text)); err != nil {
		t.Fatal(err)
	}
}

func TestATokenWithAShortLifeIsUsedForMostOfIt(t *testing.T) {
	s := oauthtest.New(t)
	s.Lifetime = 6 * time.Second
	s.Client = "app"
	cfg := config(s, t.TempDir())
	l := loggedIn(t, cfg)
	cfg.Client = oauth.Client{ID: "app", Secret: "s3cret-app"}
	m := oauth.NewClientCredentials(cfg)
	began := time.Now()
	for range 12 {
		if err := errors.Join(admitted(t.Context(), s, l), admitted(t.Context(), s, m)); err != nil {
			t.Fatal(err)
		}
	}
	most := int(time.Since(began)/(5*time.Second)) + 1
	if n, given := s.Count("refresh_token"), s.Count("client_credentials"); n >= most || given > most {
		t.Errorf("%d renewals and %d tokens for 12 calls in %v", n, given, time.Since(began))
	}
}

func TestAGrantThatWasRevokedLeavesTheTokenItsTime(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	cfg := config(s, dir)
	l := loggedIn(t, cfg)
	s.Change(func() { s.Token = broken(http.StatusBadRequest, `{"error":"invalid_grant"}`) })
	ends(t, cfg, 9*time.Second)
	if err := admitted(t.Context(), s, l); err != nil {
		t.Errorf("a token that is good still was not used: %v", err)
	}
	loggedInAgain := func() {
		s.Change(func() { s.Token = nil })
		loggedIn(t, cfg)
		s.Change(func() { s.Token = broken(http.StatusBadRequest, `{"error":"invalid_grant"}`) })
	}
	loggedInAgain()
	ends(t, cfg, -time.Second)
	hasErrorCode(t, s, admitted(t.Context(), s, l), fault.Denied, "needs a new login: its token has expired, and http://127.0.0.1", "does not renew it: it returned invalid_grant")
	loggedInAgain()
	s.Expire(false)
	hasErrorCode(t, s, admitted(t.Context(), s, l), fault.Denied, "needs a new login: its token was rejected, and http://127.0.0.1")
}

func TestLoginsUseOneRegistration(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	cfg := config(s, dir)
	for range 3 {
		loggedIn(t, cfg)
	}
	if _, err := oauth.NewLogin(cfg).Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := oauth.NewLogin(cfg)
	if l.Requested() {
		t.Error("a registration counts as a login")
	}
	hasErrorCode(t, s, admitted(t.Context(), s, l), fault.Denied, "needs a login")
	loggedIn(t, cfg)
	if err := admitted(t.Context(), s, l); err != nil || s.Count("register") != 1 || s.Count("authorize") != 4 {
		t.Errorf("%d registrations for %d logins, %v", s.Count("register"), s.Count("authorize"), err)
	}

	// The port is taken, and the server compares it.
	var record struct{ Registration struct{ Redirect string } }
	text, err := cfg.Safe.Find("login guarded")
	if err = errors.Join(err, json.Unmarshal(text, &record)); err != nil {
		t.Fatal(err)
	}
	port, err := net.Listen("tcp", strings.TrimSuffix(strings.TrimPrefix(record.Registration.Redirect, "http://"), "/callback"))
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	loggedIn(t, cfg)
	if s.Count("register") != 2 {
		t.Errorf("%d registrations", s.Count("register"))
	}

	// The server has forgotten the client, which only the browser shows.
	s.Forget()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	hasErrorCode(t, s, oauth.NewLogin(cfg).Authorize(ctx, oauth.Challenge{}, agrees), fault.Unavailable, "the browser did not return")
	loggedIn(t, cfg)
	if s.Count("register") != 3 {
		t.Errorf("%d registrations", s.Count("register"))
	}

	// More rights than were registered.
	if err := oauth.NewLogin(cfg).Authorize(t.Context(), oauth.Challenge{Scopes: []string{"admin"}}, agrees); err != nil || s.Count("register") != 4 {
		t.Errorf("%d registrations, %v", s.Count("register"), err)
	}
	for _, want := range []string{"", "has no login"} { // twice forgets the client too
		if _, err := oauth.NewLogin(cfg).Logout(t.Context()); (err == nil) != (want == "") {
			t.Error(err)
		}
	}
	loggedIn(t, cfg)
	if s.Count("register") != 5 {
		t.Errorf("%d registrations", s.Count("register"))
	}
}

func TestALogoutDoesNotMindATokenThatCannotBeRevoked(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	s.Signed = true
	l := loggedIn(t, config(s, dir))
	if unrevoked, err := l.Logout(t.Context()); unrevoked != nil || err != nil || s.Count("revoke") != 2 {
		t.Error(unrevoked, err, s.Count("revoke"))
	}
	loggedIn(t, config(s, dir))
	s.Forget() // else it is said
	unrevoked, err := oauth.NewLogin(config(s, dir)).Logout(t.Context())
	if err != nil {
		t.Error(err)
	}
	hasErrorCode(t, s, unrevoked, fault.Unavailable, "did not revoke its tokens: it returned invalid_client")
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

func TestManyRenewOnce(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	loggedIn(t, config(s, dir))
	processes := []*oauth.Login{oauth.NewLogin(config(s, dir)), oauth.NewLogin(config(s, dir)), oauth.NewLogin(config(s, dir))}
	const rounds = 10
	for range rounds {
		s.Expire(false)
		var all sync.WaitGroup
		for i := range 24 {
			all.Go(func() {
				if err := admitted(t.Context(), s, processes[i%len(processes)]); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if n := s.Count("refresh_token"); n != rounds || s.Count("theft") != 0 {
		t.Errorf("%d renewals in %d rounds, %d thefts", n, rounds, s.Count("theft"))
	}
}

// uses asks the server again and again. Between a renewal and its use there may
// be the next expiry, any number of times: a token that was just given is refused
// then, rightly.
func uses(ctx context.Context, s *oauthtest.Server, dir string, before func()) error {
	for range 30 {
		before()
		err := admitted(ctx, s, oauth.NewLogin(config(s, dir)))
		if err != nil && !strings.Contains(fault.Message(err), "rejects a new token") && !errors.Is(err, errRefused) {
			return err
		}
	}
	return nil
}

// TestMain's other life: a process that uses a login while its parent does.
func TestMain(m *testing.M) {
	if url := os.Getenv("OAUTH_TEST_URL"); url != "" {
		if err := uses(context.Background(), &oauthtest.Server{URL: url}, os.Getenv("OAUTH_TEST_DIR"), func() {}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestProcessesRenewOneAfterTheOther(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	loggedIn(t, config(s, dir))
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
	if err := uses(t.Context(), s, dir, func() { s.Expire(false) }); err != nil {
		t.Error(err)
	}
	others.Wait()
	if err := admitted(t.Context(), s, oauth.NewLogin(config(s, dir))); err != nil || s.Count("theft") != 0 || s.Count("refresh_token") == 0 {
		t.Errorf("%d thefts, %d renewals, %v", s.Count("theft"), s.Count("refresh_token"), err)
	}
}

func TestAnAuthorizationServerThatFailsIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		token func(http.ResponseWriter, *http.Request) bool
		kind  fault.Kind
		says  string
	}{
		"down":      {broken(http.StatusServiceUnavailable, ""), fault.Unavailable, "which issued no token: it answered 503 Service Unavailable"},
		"a page":    {broken(http.StatusOK, "<html>log in</html>"), fault.Unavailable, "its response is malformed"},
		"nothing":   {broken(http.StatusOK, "{}"), fault.Unavailable, "its response is malformed"},
		"no header": {broken(http.StatusOK, `{"access_token":"a\nb"}`), fault.Unavailable, "its response is malformed"},
		"no bearer": {broken(http.StatusOK, `{"access_token":"a","token_type":"DPoP"}`), fault.Unavailable, "its response is malformed"},
		"endless":   {broken(http.StatusOK, `{"access_token":"`+strings.Repeat("x", 2<<20)), fault.Unavailable, "its response is malformed"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
			return true
		}, fault.Unavailable, "it redirects to another host"},
		"control": {broken(http.StatusBadRequest, `{"error":"server_error","error_description":"\u001b[31moops"}`), fault.Unavailable, "it returned server_error (oops)"},
		"closed": {func(w http.ResponseWriter, _ *http.Request) bool {
			panic(http.ErrAbortHandler)
		}, fault.Unavailable, "which issued no token"},
		"revoked": {nil, fault.Denied, "does not renew it: it returned invalid_grant (it is over: [secret])"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := oauthtest.New(t)
			l := loggedIn(t, config(s, t.TempDir()))
			s.Expire(c.token == nil)
			s.Change(func() { s.Token = c.token })
			err := admitted(t.Context(), s, l)
			hasErrorCode(t, s, err, c.kind, c.says)
			if err := admitted(t.Context(), s, l); err == nil {
				t.Error("it worked the second time")
			}
		})
	}
}

func TestOneThatHangsHoldsNobodyLongerThanTheyWait(t *testing.T) {
	s := oauthtest.New(t)
	l := loggedIn(t, config(s, t.TempDir()))
	s.Expire(false)
	asked, ends := make(chan struct{}), make(chan struct{})
	defer close(ends)
	s.Change(func() {
		s.Token = func(http.ResponseWriter, *http.Request) bool { close(asked); <-ends; return true }
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if err := admitted(ctx, s, l); err == nil {
		t.Error("it worked")
	}
}

func TestAClientThatIsRegisteredKeepsItsSecretInTheConfiguration(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	s.Client, s.Closed = "app", true
	cfg := config(s, dir)
	cfg.Client = oauth.Client{ID: "app", Secret: "s3cret-app", Issuer: s.Issuer, Scopes: []string{"read"}}
	l := loggedIn(t, cfg)
	s.Expire(false)
	if err := admitted(t.Context(), s, l); err != nil || s.Count("register") != 0 {
		t.Errorf("%d registrations, %v", s.Count("register"), err)
	}
	cfg.Client.Secret = "wrong"
	s.Expire(false)
	hasErrorCode(t, s, admitted(t.Context(), s, oauth.NewLogin(cfg)), fault.Denied, "does not renew it: it returned invalid_client")
	cfg.Client.Secret = "s3cret-app"
	if err := admitted(t.Context(), s, oauth.NewLogin(cfg)); err != nil {
		t.Errorf("the login did not survive a wrong secret: %v", err)
	}
	other := cfg
	other.Client.Issuer = "https://other.example.com"
	hasErrorCode(t, s, oauth.NewLogin(other).Authorize(t.Context(), oauth.Challenge{}, agrees), fault.Denied, "is registered with https://other.example.com")
	other = cfg
	other.Client.ID = "another"
	hasErrorCode(t, s, admitted(t.Context(), s, oauth.NewLogin(other)), fault.Denied, "needs a login")
}

func TestALoginIsForOneAddressOnly(t *testing.T) {
	s, other, dir := oauthtest.New(t), oauthtest.New(t), t.TempDir()
	loggedIn(t, config(s, dir))
	if token, err := oauth.NewLogin(config(other, dir)).Token(t.Context()); token != "" || err != nil {
		t.Errorf("the token goes to another address, %v", err)
	}
}

func TestALostKeyIsToldAndCured(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	l := loggedIn(t, config(s, dir))
	if err := os.Remove(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	again := oauth.NewLogin(config(s, dir))
	hasErrorCode(t, s, admitted(t.Context(), s, again), fault.Denied, "needs a new login: the stored one cannot be decrypted", "tools login guarded")
	loggedIn(t, config(s, dir))
	if err := errors.Join(admitted(t.Context(), s, again), admitted(t.Context(), s, l)); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	if unrevoked, err := oauth.NewLogin(config(s, dir)).Logout(t.Context()); err != nil || unrevoked == nil {
		t.Errorf("%v, %v", unrevoked, err)
	}
}

func TestALogoutForgetsAndRevokes(t *testing.T) {
	s, dir := oauthtest.New(t), t.TempDir()
	l := loggedIn(t, config(s, dir))
	running := oauth.NewLogin(config(s, dir))
	if err := admitted(t.Context(), s, running); err != nil {
		t.Fatal(err)
	}
	if unrevoked, err := l.Logout(t.Context()); unrevoked != nil || err != nil {
		t.Error(unrevoked, err)
	}
	if access, refresh := s.Tokens(); access != 0 || refresh != 0 {
		t.Errorf("%d and %d tokens are left", access, refresh)
	}
	if token, err := running.Token(t.Context()); token != "" || err != nil {
		t.Errorf("another process has it still, %v", err)
	}
	_, err := l.Logout(t.Context())
	hasErrorCode(t, s, err, fault.NotFound, "has no login")

	loggedIn(t, config(s, dir))
	s.Change(func() { s.Client = "" })
	cfg := config(s, dir)
	with("revocation_endpoint", "")(s)
	loggedIn(t, cfg)
	unrevoked, err := oauth.NewLogin(cfg).Logout(t.Context())
	if err != nil {
		t.Error(err)
	}
	hasErrorCode(t, s, unrevoked, fault.Unavailable, "which does not support revocation")
}

func TestAMachineNeedsNobody(t *testing.T) {
	s := oauthtest.New(t)
	s.Client = "app"
	s.Scopes = func(*http.Request, string) []string { return []string{"read"} }
	cfg := config(s, "")
	cfg.Safe = nil
	cfg.Client = oauth.Client{ID: "app", Secret: "s3cret-app"}
	m := oauth.NewClientCredentials(cfg)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if err := admitted(t.Context(), s, m); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.Count("client_credentials"); n != 1 {
		t.Errorf("%d tokens for all", n)
	}
	s.Expire(false)
	s.Change(func() { s.Scopes = func(*http.Request, string) []string { return []string{"read", "write"} } })
	if err := admitted(t.Context(), s, m); err != nil {
		t.Error(err)
	}
	cfg.Client.Secret = "wrong-s3cret"
	hasErrorCode(t, s, admitted(t.Context(), s, oauth.NewClientCredentials(cfg)), fault.Denied, "which issued no token: it returned invalid_client (it is not known here, [secret])", "check client_id")
	s.Change(func() { s.Token = broken(http.StatusBadGateway, "") })
	cfg.Client.Secret = "s3cret-app"
	hasErrorCode(t, s, admitted(t.Context(), s, oauth.NewClientCredentials(cfg)), fault.Unavailable, "it answered 502")
}
