package daemon_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// rig is a daemon of the profile passthrough, served to the owner and to alice, whose configuration a
// test replaces.
type rig struct {
	t   *testing.T
	dir string
	url string
	d   *daemon.Daemon
	cfg daemon.Config
}

func newRig(t *testing.T, text string, scripts map[string]upstreamtest.Script) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	r.cfg = passingOn(t, r.dir, scripts)
	r.cfg.Config = *r.load(text)
	r.url, r.d, _ = startTokens(t, r.cfg)
	return r
}

// load returns a configuration with the servers of the rig and those tokens.
func (r *rig) load(text string) *config.Config {
	r.t.Helper()
	c := settings(r.t, r.dir, text)
	c.Servers, c.Profile, c.DataDir = r.cfg.Servers, "passthrough", filepath.Join(r.dir, "data")
	c.CacheDir = filepath.Join(r.dir, "cache")
	c.HTTP = config.HTTP{Events: true, Tokens: []config.Token{{Secret: ownerToken, Tenant: tenant.Local},
		{Secret: aliceToken, Tenant: tenantOf(r.t, "alice")}}}
	return c
}

func tenantOf(t *testing.T, uid string) tenant.ID {
	t.Helper()
	id, err := tenant.Parse(uid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (r *rig) reload(c *config.Config) daemon.Reloaded {
	r.t.Helper()
	done, err := r.d.Reload(r.t.Context(), c)
	if err != nil {
		r.t.Fatal(err)
	}
	return done
}

// open opens a connection of each transport that has connections, as alice, and returns functions that
// send a message over it.
func (r *rig) open() map[string]func(message string) string {
	r.t.Helper()
	connection, s := connect(r.t, r.url, aliceToken), openStream(r.t, r.url, aliceToken)
	s.initialize(r.t, aliceToken)
	return map[string]func(string) string{
		"2026-07-28": func(m string) string { return transports["2026-07-28"](r.t, r.url, aliceToken, m) },
		"2025-11-25": func(m string) string {
			return answer(r.t, sendHTTP(r.t, "POST", r.url+"/mcp", m, aliceToken, connection...))
		},
		"2024-11-05": func(m string) string {
			s.post(r.t, m, aliceToken)
			return s.response(r.t)
		},
	}
}

// ask sends a message over all connections, and reports answers without want.
func (r *rig) ask(open map[string]func(string) string, when, message, want string) {
	r.t.Helper()
	for name, send := range open {
		if got := send(message); !strings.Contains(got, want) {
			r.t.Errorf("%s, over %s: %s, want %s", when, name, got, want)
		}
	}
}

func TestReloadChangesWhatATenantMayUse(t *testing.T) {
	r := newRig(t, "tiers: {free: {tenants: [alice], servers: [good, secret]}}\nsubsets: {some: [good, secret]}\n",
		map[string]upstreamtest.Script{"secret": scripted("reveal"), "good": scripted("echo")})
	open := r.open()
	r.ask(open, "before", call("reveal", `{}`), "reveal answers")
	done := r.reload(r.load("tiers: {free: {tenants: [alice], servers: [good]}}\nsubsets: {some: [good]}\n"))
	if !slices.Equal(done.Applied, []string{"subsets.some", "tiers.free"}) || done.Restart != nil {
		t.Errorf("%+v", done)
	}
	r.ask(open, "without the server", call("reveal", `{}`), "no tool")
	r.ask(open, "with the other server", call("echo", `{}`), "echo answers")
	r.ask(open, "the resource of a hidden server", rpc("resources/read", `"uri":"upstream://secret/x"`), "error")
	if got := transports["2025-11-25"](t, r.url, ownerToken, call("reveal", `{}`)); !strings.Contains(got, "reveal answers") {
		t.Errorf("the owner: %s", got)
	}
	some := func() string {
		t.Helper()
		return choose(t, r.url+"/mcp/p/some", ownerToken, call("reveal", `{}`), "2026-07-28")
	}
	if got := some(); !strings.Contains(got, "no tool") {
		t.Errorf("the smaller subset: %s", got)
	}
	r.reload(r.load("policy: {default: block}\nquotas: {calls_per_day: 3}\n"))
	r.ask(open, "with a policy", call("reveal", `{}`), "policy says block")
	if got := some(); !strings.Contains(got, "there is no subset") {
		t.Errorf("the removed subset: %s", got)
	}
	r.reload(r.load("quotas: {calls_per_day: 3}\n"))
	r.ask(open, "within the quota", call("reveal", `{}`), "reveal answers")
	r.ask(open, "above the quota", call("reveal", `{}`), "quota")
	r.reload(r.load(""))
	r.ask(open, "without anything", call("reveal", `{}`), "reveal answers")
}

func TestReloadChangesPrivacyAndGuardrails(t *testing.T) {
	mail := upstreamtest.Script{
		Tools:   []json.RawMessage{json.RawMessage(`{"name":"mail","inputSchema":{"type":"object"}}`)},
		Answers: map[string]json.RawMessage{"call mail": json.RawMessage(`{"content":[{"type":"text","text":"to ann@example.com"}]}`)},
	}
	r := newRig(t, "pii: {mode: 'off'}\n", map[string]upstreamtest.Script{"good": mail})
	open := r.open()
	r.ask(open, "before", call("mail", `{}`), "ann@example.com")
	r.reload(r.load("tenants: {alice: {pii: {mode: egress}}}\npii: {mode: 'off'}\n"))
	r.ask(open, "with the mode of the tenant", call("mail", `{}`), "to [EMAIL_")
	r.reload(r.load("guardrails: {blocked_patterns: [forbidden]}\n"))
	r.ask(open, "with a pattern", call("mail", `{"x":"forbidden"}`), "blocked_patterns")
	r.ask(open, "with the mode of the daemon", call("mail", `{}`), "to [EMAIL_")
	r.reload(r.load("pii: {mode: 'off'}\n"))
	r.ask(open, "after", call("mail", `{"x":"forbidden"}`), "ann@example.com")
}

func TestReloadRemovesTokensAtOnce(t *testing.T) {
	r := newRig(t, "", map[string]upstreamtest.Script{"good": scripted("echo")})
	stream, owners := openStream(t, r.url, aliceToken), openStream(t, r.url, ownerToken)
	without := func(tokens ...string) *config.Config {
		c := r.load("")
		c.HTTP.Tokens = slices.DeleteFunc(c.HTTP.Tokens, func(t config.Token) bool { return slices.Contains(tokens, t.Secret) })
		return c
	}
	status := func(token string, want int) {
		t.Helper()
		if res := sendHTTP(t, "POST", r.url+"/mcp", hello, token); res.StatusCode != want {
			t.Errorf("%s: %s", token, res.Status)
		}
	}
	began := time.Now()
	r.reload(without(aliceToken))
	status(aliceToken, http.StatusUnauthorized)
	status(ownerToken, http.StatusOK)
	for stream.lines.Scan() { // it ends
	}
	if wait := time.Since(began); wait > 8*time.Second { // the interval of checks is 10 s
		t.Errorf("the stream ended after %s", wait)
	}
	owners.post(t, hello, ownerToken)
	if got := owners.response(t); !strings.Contains(got, "serverInfo") {
		t.Errorf("the owner's stream: %s", got)
	}
	last := without(aliceToken, ownerToken)
	done := r.reload(last)
	status(ownerToken, http.StatusUnauthorized)
	if w := done.Warnings(last); len(w) != 1 || !strings.Contains(w[0], "every request is refused") {
		t.Errorf("%q", w)
	}
	// The token has another owner, whose the open stream is not.
	moved := without(aliceToken)
	moved.HTTP.Tokens[0].Tenant = tenantOf(t, "bob")
	r.reload(r.load(""))
	stream = openStream(t, r.url, ownerToken)
	r.reload(moved)
	status(ownerToken, http.StatusOK)
	for stream.lines.Scan() {
	}
}

func TestReloadChangesAPIKeys(t *testing.T) {
	r := newRig(t, "", map[string]upstreamtest.Script{"good": scripted("echo")})
	keys, err := r.d.HTTP.OpenKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	_, key, err := keys.New(t.Context(), access.Key{Tenant: tenantOf(t, "alice"), Scopes: []access.Scope{access.Execute}})
	if err != nil {
		t.Fatal(err)
	}
	for _, accepted := range []bool{false, true, false, true} {
		c := r.load("")
		c.HTTP.Keys = accepted
		r.reload(c)
		if res := sendHTTP(t, "POST", r.url+"/mcp", hello, key); (res.StatusCode == http.StatusOK) != accepted {
			t.Errorf("http.api_keys %v: %s", accepted, res.Status)
		}
	}
}

func TestRefusedReloadChangesNothing(t *testing.T) {
	r := newRig(t, "", map[string]upstreamtest.Script{"good": scripted("echo")})
	open := r.open()
	bad := r.load("tiers: {free: {tenants: [alice], servers: []}}\n")
	bad.Policy = policy.Config{Rules: []policy.Rule{{When: "nonsense(", At: "sandpiper.yaml line 4", Decision: policy.Block}}}
	bad.Servers, bad.HTTP.Tokens = nil, nil
	if _, err := r.d.Reload(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "sandpiper.yaml line 4: rule 1 of the policy") {
		t.Errorf("%v", err)
	}
	r.ask(open, "after a bad policy", call("echo", `{}`), "echo answers")
}

// In one configuration alice may not use the server secret, in the other there is none.
func TestReloadIsAtomic(t *testing.T) {
	r := newRig(t, "tiers: {free: {tenants: [alice], servers: [good]}}\n",
		map[string]upstreamtest.Script{"secret": scripted("reveal"), "good": scripted("echo")})
	hidden, none := r.load("tiers: {free: {tenants: [alice], servers: [good]}}\n"), r.load("")
	none.Servers = slices.DeleteFunc(slices.Clone(none.Servers), func(s config.Server) bool { return s.Name == "secret" })
	blocked := r.load("policy: {rules: [{tool: 'secret.*', decision: block}]}\n")
	var all sync.WaitGroup
	end := make(chan struct{})
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if got := transports["2026-07-28"](t, r.url, aliceToken, call("reveal", `{}`)); strings.Contains(got, "reveal answers") {
					t.Errorf("alice reached the server: %s", got)
				}
				if got := transports["2026-07-28"](t, r.url, aliceToken, call("echo", `{}`)); !strings.Contains(got, "echo answers") {
					t.Errorf("a call was dropped: %s", got)
				}
			}
		})
	}
	for i := range 60 {
		next := *[]*config.Config{hidden, none, blocked, none}[i%4]
		r.reload(&next)
	}
	close(end)
	all.Wait()
}
