package daemon_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
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

// serveTokens serves d over HTTP to the owner and to alice, and returns its address.
func serveTokens(t *testing.T, cfg daemon.Config) string {
	t.Helper()
	alice, err := tenant.Parse("alice")
	if err != nil {
		t.Fatal(err)
	}
	cfg.HTTP = config.HTTP{Events: true, Tokens: []config.Token{{Secret: ownerToken, Tenant: tenant.Local}, {Secret: aliceToken, Tenant: alice}}}
	d := start(t, cfg)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.ServeHTTP(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

func sendHTTP(t *testing.T, method, url, body, token string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
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

// transports call a tool with a token and return the message that answers.
var transports = map[string]func(t *testing.T, url, token, message string) string{
	"2026-07-28": func(t *testing.T, url, token, message string) string {
		t.Helper()
		const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}},`
		message = strings.Replace(message, `"params":{`, `"params":{`+meta, 1)
		_, rest, _ := strings.Cut(message, `"name":"`)
		name, _, _ := strings.Cut(strings.TrimPrefix(rest, `t","version":"1"}},"name":"`), `"`)
		res := sendHTTP(t, "POST", url+"/mcp", message, token, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name)
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	},
	"2025-11-25": func(t *testing.T, url, token, message string) string {
		t.Helper()
		res := sendHTTP(t, "POST", url+"/mcp", hello, token)
		id := res.Header.Get("Mcp-Session-Id")
		if _, err := io.ReadAll(res.Body); err != nil || id == "" {
			t.Fatal(res.Status, err)
		}
		connection := []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25"}
		sendHTTP(t, "POST", url+"/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, token, connection...)
		body, err := io.ReadAll(sendHTTP(t, "POST", url+"/mcp", message, token, connection...).Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	},
	"2024-11-05": func(t *testing.T, url, token, message string) string {
		t.Helper()
		lines := bufio.NewScanner(sendHTTP(t, "GET", url+"/sse", "", token).Body)
		next := func() string {
			for lines.Scan() {
				if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					return data
				}
			}
			t.Fatal("the stream ended")
			return ""
		}
		endpoint := url + next()
		sendHTTP(t, "POST", endpoint, hello, token)
		next()
		sendHTTP(t, "POST", endpoint, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, token)
		sendHTTP(t, "POST", endpoint, message, token)
		return next()
	},
}

func TestTenantsAreIsolatedOnEveryTransport(t *testing.T) {
	url := serveTokens(t, daemon.Config{})
	for name, ask := range transports {
		t.Run(name, func(t *testing.T) {
			if got := ask(t, url, ownerToken, call("write_workspace_file", `{"filename":"secret.txt","content":"of the owner"}`)); !strings.Contains(got, "Written") {
				t.Fatal(got)
			}
			if got := ask(t, url, ownerToken, call("read_workspace_file", `{"filename":"secret.txt"}`)); !strings.Contains(got, "of the owner") {
				t.Error(got)
			}
			if got := ask(t, url, aliceToken, call("read_workspace_file", `{"filename":"secret.txt"}`)); strings.Contains(got, "of the owner") || !strings.Contains(got, "secret.txt") {
				t.Errorf("alice reads %s", got)
			}
		})
	}
}

// In passthrough a rule about alice holds over every transport too.
func TestTenantRulesApplyOnEveryTransport(t *testing.T) {
	dir := t.TempDir()
	cfg := passingOn(t, dir, map[string]upstreamtest.Script{"good": scripted("echo")})
	cfg.DataDir = filepath.Join(dir, "data")
	cfg.Policy = policy.Config{Rules: []policy.Rule{{Name: "not alice", Decision: policy.Block, Scope: policy.Scope{Tenants: []string{"alice"}}}}}
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
