package daemon_test

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// limited is a daemon whose tenant alice has quotas.
func limited(t *testing.T, dir, quotas string) daemon.Config {
	t.Helper()
	cfg := passingOn(t, dir, map[string]upstreamtest.Script{"good": scripted("echo")})
	loaded := settings(t, dir, "tiers: {free: {tenants: [alice], quotas: {"+quotas+"}}}\n")
	cfg.Tenants, cfg.Limits, cfg.Workspace, cfg.PII = loaded.Tenants, loaded.Limits, loaded.Workspace, loaded.PII
	cfg.DataDir = filepath.Join(dir, "data")
	return cfg
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestQuotaOfExecutions(t *testing.T) {
	dir := t.TempDir()
	cfg := limited(t, dir, "executions_per_minute: 3")
	cfg.Profile, cfg.Backend = "standard", fakes
	url := serveTokens(t, cfg)
	execute := call("execute_code", `{"code":"print 1"}`)
	for transport, ask := range transports {
		if got := ask(t, url, aliceToken, execute); strings.Contains(got, "quota") {
			t.Errorf("%s: %s", transport, got)
		}
	}
	for transport, ask := range transports {
		got := ask(t, url, aliceToken, execute)
		for _, want := range []string{`the quota executions_per_minute is used up (3 of 3); try again in`,
			`\"quota\":\"executions_per_minute\"`, `\"used\":3`, `\"allowed\":3`, `\"retry_after_seconds\":`} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %s in %s", transport, want, got)
			}
		}
		if got := ask(t, url, ownerToken, execute); strings.Contains(got, "quota") {
			t.Errorf("another tenant, %s: %s", transport, got)
		}
	}
	res := sendHTTP(t, "POST", url+"/mcp", hello, aliceToken)
	body(t, res)
	if got := res.Header.Get("RateLimit-Policy"); got != `"executions_per_minute";q=3;w=60` {
		t.Error(got)
	}
	if got := res.Header.Get("RateLimit"); !regexp.MustCompile(`^"executions_per_minute";r=0;t=\d+$`).MatchString(got) {
		t.Error(got)
	}
	if got := res.Header.Get("Retry-After"); !regexp.MustCompile(`^\d+$`).MatchString(got) {
		t.Error(got)
	}
	res = sendHTTP(t, "POST", url+"/mcp", hello, ownerToken)
	body(t, res)
	if got := res.Header.Get("RateLimit") + res.Header.Get("Retry-After"); got != "" {
		t.Error("a tenant without quotas has", got)
	}
}

// A quota of calls applies to passthrough too, spans connections, and is stored.
func TestQuotaOfCalls(t *testing.T) {
	dir := t.TempDir()
	cfg := limited(t, dir, "calls_per_day: 4")
	url := serveTokens(t, cfg)
	refused, answered := 0, 0
	for range 3 {
		for _, ask := range transports {
			switch got := ask(t, url, aliceToken, call("echo", `{}`)); {
			case strings.Contains(got, "echo answers"):
				answered++
			case strings.Contains(got, "good.echo was not called: the quota calls_per_day is used up (4 of 4); try again in 2"):
				refused++
			default:
				t.Error(got)
			}
		}
	}
	if answered != 4 || refused != 5 {
		t.Errorf("%d calls were answered, %d refused", answered, refused)
	}
	if got := transports["2026-07-28"](t, url, ownerToken, call("echo", `{}`)); !strings.Contains(got, "echo answers") {
		t.Error(got)
	}
}
