package upstream_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/oauth"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/oauth/oauthtest"
	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// newGuardedSet returns a Set with a server that requires tokens. Logins are stored in dir.
func newGuardedSet(t testing.TB, g *oauthtest.Server, dir string, log *logtest.Log, more ...upstream.Server) *upstream.Set {
	return open(t, upstream.Config{
		Servers:    append(more, upstream.Server{Name: "guarded", Kind: upstream.Remote{URL: g.URL, Authorization: &oauth.Client{}}}),
		RetryDelay: time.Hour,
		Logins:     secret.NewStore(filepath.Join(dir, "logins"), filepath.Join(dir, "key")),
		Log:        slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

// wantNoTokens checks that texts contain no token.
func wantNoTokens(t testing.TB, g *oauthtest.Server, texts ...string) {
	t.Helper()
	for _, hidden := range g.Secrets() {
		for _, text := range texts {
			if strings.Contains(text, hidden) {
				t.Errorf("%q contains %q", text, hidden)
			}
		}
	}
}

var person = upstream.Interaction{OpenURL: func(address string) { go oauthtest.Browse(address) }}

func TestLoginRequired(t *testing.T) {
	g, log := oauthtest.New(t), &logtest.Log{}
	dir := t.TempDir()
	s := newGuardedSet(t, g, dir, log, brokenServer(t, "good"))
	_, err := s.List(t.Context(), "guarded")
	wantError(t, err, fault.Denied, `server "guarded" needs a login / run `+"`sandpiper tools login guarded`")
	if st := state(s, "guarded"); st.State != upstream.Failed || st.Hint != "run `sandpiper tools login guarded`" {
		t.Errorf("%+v", st)
	}
	wantEcho(t, s, "good")

	// Another process logs in, while the retry delay is an hour.
	if err := newGuardedSet(t, g, dir, log).Login(t.Context(), "guarded", person); err != nil {
		t.Fatal(err)
	}
	wantEcho(t, s, "guarded")
	g.Expire(false)
	wantEcho(t, s, "guarded")

	g.Expire(true)
	_, err = call(t.Context(), s, "guarded", "echo", "hello")
	wantError(t, err, fault.Denied, `server "guarded" needs a new login: its token was rejected`, "invalid_grant",
		"sandpiper tools login guarded")
	wantEcho(t, s, "good")
	states, _ := json.Marshal(s.States())
	wantNoTokens(t, g, log.String(), err.Error(), string(states))
}

func TestInsufficientScopeAffectsOneTool(t *testing.T) {
	g, dir := oauthtest.New(t), t.TempDir()
	g.Scopes = func(_ *http.Request, method string) []string {
		if method == "tools/call" {
			return []string{"write"}
		}
		return nil
	}
	s := newGuardedSet(t, g, dir, &logtest.Log{})
	if err := s.Login(t.Context(), "guarded", person); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context(), "guarded"); err != nil {
		t.Fatal(err)
	}
	_, err := call(t.Context(), s, "guarded", "echo", "hello")
	wantError(t, err, fault.Denied, `server "guarded" needs a login with more scopes (write)`, "tools login guarded")
	if _, err := s.List(t.Context(), "guarded"); err != nil || state(s, "guarded").State != upstream.Ready {
		t.Errorf("call of another tool: %v", err)
	}
	if err := s.Login(t.Context(), "guarded", person); err != nil {
		t.Fatal(err)
	}
	wantEcho(t, s, "guarded")
}

func TestTokenInAnswerIsRedacted(t *testing.T) {
	g := oauthtest.New(t)
	s := newGuardedSet(t, g, t.TempDir(), &logtest.Log{})
	if err := s.Login(t.Context(), "guarded", person); err != nil {
		t.Fatal(err)
	}
	wantEcho(t, s, "guarded")
	g.Change(func() {
		g.Scopes = func(r *http.Request, _ string) []string { return []string{r.Header.Get("Authorization")} }
	})
	_, err := call(t.Context(), s, "guarded", "echo", "hello")
	wantError(t, err, fault.Denied, "[secret]")
	wantNoTokens(t, g, err.Error())
	g.Change(func() { g.Scopes = nil })
	r, err := call(t.Context(), s, "guarded", "echo", g.Secrets()[len(g.Secrets())-1])
	if err != nil || r.Text() != "[secret]" {
		t.Errorf("%q %v", r.Text(), err)
	}
}

func TestClientCredentials(t *testing.T) {
	g := oauthtest.New(t)
	g.Client = "app"
	server := upstream.Server{Name: "batch", Kind: upstream.Remote{URL: g.URL,
		Authorization: &oauth.Client{ID: "app", Secret: "s3cret-app", Machine: true}}}
	s := newGuardedSet(t, g, t.TempDir(), &logtest.Log{}, server)
	wantEcho(t, s, "batch")
	wantError(t, s.Login(t.Context(), "batch", person), fault.Invalid, `server "batch" needs no login`)
}

func TestLoginRejectsOtherServers(t *testing.T) {
	g, open := oauthtest.New(t), serve(t, nil)
	s := newGuardedSet(t, g, t.TempDir(), &logtest.Log{}, brokenServer(t, "good"),
		upstream.Server{Name: "named", Kind: upstream.Remote{URL: g.URL, Authorization: &oauth.Client{},
			Headers: map[string]string{"authorization": "Bearer x"}}},
		upstream.Server{Name: "open", Kind: upstream.Remote{URL: open.URL + "/mcp", Authorization: &oauth.Client{}}},
		upstream.Server{Name: "down", Kind: upstream.Remote{URL: "http://127.0.0.1:1/mcp", Authorization: &oauth.Client{}}})
	for name, c := range map[string]struct {
		kind fault.Kind
		says string
	}{
		"good":   {fault.Invalid, "is a local program"},
		"named":  {fault.Invalid, "its headers contain Authorization"},
		"down":   {fault.Unavailable, `server "down" cannot be reached`},
		"open":   {fault.Invalid, `server "open" does not require a login`},
		"nobody": {fault.NotFound, `there is no server "nobody"`},
	} {
		wantError(t, s.Login(t.Context(), name, person), c.kind, c.says)
	}
	_, err := s.Logout(t.Context(), "guarded")
	wantError(t, err, fault.NotFound, `server "guarded" has no login`)
	server := upstream.Server{Name: "x", Kind: upstream.Remote{URL: "http://127.0.0.1",
		Authorization: &oauth.Client{ID: "x", Machine: true}}}
	_, err = upstream.New(upstream.Config{Servers: []upstream.Server{server}})
	wantError(t, err, fault.Invalid, `server "x" uses client credentials and needs client_id`)
}
