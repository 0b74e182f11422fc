package daemon_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

const (
	ownerToken = "token-of-the-owner"
	aliceToken = "token-of-alice-xx"
)

// serveTokens serves a daemon over HTTP to the owner and to alice, and returns its address.
func serveTokens(t *testing.T, cfg daemon.Config) string {
	t.Helper()
	url, _, _ := startTokens(t, cfg)
	return url
}

// startTokens is serveTokens for tests that need the daemon too, or stop it before they end.
func startTokens(t *testing.T, cfg daemon.Config) (url string, d *daemon.Daemon, stop func()) {
	t.Helper()
	alice, err := tenant.Parse("alice")
	if err != nil {
		t.Fatal(err)
	}
	cfg.HTTP = config.HTTP{AccessLog: cfg.HTTP.AccessLog, Events: true,
		Tokens: []config.Token{{Secret: ownerToken, Tenant: tenant.Local}, {Secret: aliceToken, Tenant: alice}}}
	d = start(t, cfg)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.HTTP.Serve(ctx, ln) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-served, d.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return "http://" + ln.Addr().String(), d, stop
}

func sendHTTP(t *testing.T, method, url, body, token string, header ...string) *http.Response {
	t.Helper()
	return sendHTTPContext(t, t.Context(), method, url, body, token, header...)
}

func sendHTTPContext(t *testing.T, ctx context.Context, method, url, body, token string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// In passthrough a rule about alice holds over every transport too.
func TestTenantRulesApplyOnEveryTransport(t *testing.T) {
	dir := t.TempDir()
	cfg := passingOn(t, dir, map[string]upstreamtest.Script{"good": scripted("echo")})
	cfg.DataDir = filepath.Join(dir, "data")
	cfg.Policy = policy.Config{Rules: []policy.Rule{{Name: "not alice", Decision: policy.Block,
		Scope: policy.Scope{Tenants: []string{"alice"}}}}}
	url := serveTokens(t, cfg)
	for name, ask := range transports {
		t.Run(name, func(t *testing.T) {
			if got := ask(t, url, ownerToken, call("echo", `{}`)); !strings.Contains(got, "echo answers") {
				t.Error(got)
			}
			if got := ask(t, url, aliceToken, call("echo", `{}`)); strings.Contains(got, "echo answers") {
				t.Errorf("the rule has no effect: %s", got)
			}
		})
	}
}
