package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access/accesstest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// Tokens of an OpenID provider identify tenants, in every revision; a client without a token
// learns where to get one.
func TestOpenIDTokensIdentifyTenants(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	at := accesstest.Start(t)
	d := startServing(t, "", fmt.Sprintf(`http: {sse: true, oidc: {issuer: %q, resource: "https://mcp.example/mcp", audience: %s, claim: `+
		`customer_uid, skew: 1s}}`, at.URL, accesstest.Audience))
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }

	res := d.visit().must(d.visit().call(t.Context(), "1"))
	res.Body.Close()
	const metadata = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
	if res.StatusCode != http.StatusUnauthorized || res.Header.Get("WWW-Authenticate") != fmt.Sprintf(`Bearer scope="execute", `+
		`resource_metadata=%q`, metadata) {
		t.Errorf("without a token: %s, %q", res.Status, res.Header.Get("WWW-Authenticate"))
	}
	res = d.visit().must(http.Get("http://" + d.addr + strings.TrimPrefix(metadata, "https://mcp.example")))
	defer res.Body.Close()
	var about struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
	}
	if err := json.NewDecoder(res.Body).Decode(&about); err != nil || about.Resource != "https://mcp.example/mcp" ||
		len(about.Servers) != 1 || about.Servers[0] != at.URL || len(about.Scopes) != 4 {
		t.Errorf("metadata %+v, %v", about, err)
	}

	upper := at.Token("customer_A", "execute files")
	a, older := d.visit(bearer(upper)...), d.visitOlder(bearer(upper)...)
	if got := a.value("open('a.txt','w').write('of A')"); got != "4" {
		t.Fatal(got)
	}
	if got := older.value("open('a.txt').read()"); got != `"of A"` {
		t.Errorf("an older client of the same tenant reads %s", got)
	}
	if got := d.visit(bearer(at.Token("customer_a", "execute"))...).value("__import__('os').path.exists('a.txt')"); got != "false" {
		t.Errorf("customer_a sees files of customer_A: %s", got)
	}
	insufficient := fmt.Sprintf(`Bearer error="insufficient_scope", scope="execute", resource_metadata=%q`, metadata)
	for version, v := range map[string]*visitor{"2026-07-28": d.visit(bearer(at.Token("customer_A", "files"))...),
		"2025-11-25": d.visitOlder(bearer(at.Token("customer_A", "files"))...)} {
		res := v.must(v.call(t.Context(), "1"))
		res.Body.Close()
		if got := res.Header.Get("WWW-Authenticate"); res.StatusCode != http.StatusForbidden || got != insufficient {
			t.Errorf("without the scope, %s: %s, %s", version, res.Status, got)
		}
	}

	// A connection of another tenant is answered like an unknown one.
	res = older.must(older.send(t.Context(), `{"jsonrpc":"2.0","id":9,"method":"ping"}`, bearer(at.Token("customer_a", "execute"))...))
	res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("a connection of another tenant answers %s", res.Status)
	}
	refused := func(name, token, message string) {
		t.Helper()
		challenge := fmt.Sprintf(`Bearer error="invalid_token", error_description=%q, scope="execute", resource_metadata=%q`, message,
			metadata)
		for version, v := range map[string]*visitor{"2026-07-28": a, "2025-11-25": older} {
			res := v.must(v.send(t.Context(), `{"jsonrpc":"2.0","id":9,"method":"ping"}`, bearer(token)...))
			res.Body.Close()
			if got := res.Header.Get("WWW-Authenticate"); res.StatusCode != http.StatusUnauthorized || got != challenge {
				t.Errorf("%s, %s: %s, %s, want %s", name, version, res.Status, got, challenge)
			}
		}
	}
	refused("another audience", at.TokenFor("billing", time.Hour, "customer_A", "execute"), "unknown token")
	refused("expired", at.TokenFor(accesstest.Audience, -time.Minute, "customer_A", "execute"), "the token has expired")
	refused("invalid uid", at.Token("../customer_A", "execute"), "unknown token")
	if log := d.log.String(); !strings.Contains(log, `expected audience`) || strings.Contains(log, "../customer_A") {
		t.Errorf("the log has not the reason of the first refusal only:\n%s", log)
	}
	short := at.TokenFor(accesstest.Audience, time.Second, "customer_A", "execute")
	v := d.visit(bearer(short)...)
	if got := v.value("6*7"); got != "42" {
		t.Errorf("before it expires: %s", got)
	}
	time.Sleep(2100 * time.Millisecond) // its lifetime and the skew
	refused("expired meanwhile", short, "the token has expired")

	down := startServing(t, "", fmt.Sprintf(`http: {oidc: {issuer: "http://127.0.0.1:1", resource: "https://mcp.example/mcp", `+
		`audience: %s}}`, accesstest.Audience))
	down.mayFail = true // logs that it cannot verify the token
	v = down.visit(bearer(upper)...)
	res = v.must(v.call(t.Context(), "1"))
	res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || res.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("while the provider cannot be reached: %s, %v", res.Status, res.Header)
	}
}
