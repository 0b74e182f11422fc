package daemon_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// answering is the script of a server whose answers name an account.
func answering(account string) upstreamtest.Script {
	text := func(what string) json.RawMessage {
		return json.RawMessage(`{"content":[{"type":"text","text":"` + what + ` of ` + account + `"}]}`)
	}
	return upstreamtest.Script{
		Tools:     []json.RawMessage{json.RawMessage(`{"name":"mail","inputSchema":{"type":"object"}}`)},
		Resources: []json.RawMessage{json.RawMessage(`{"uri":"box://` + account + `","name":"box of ` + account + `"}`)},
		Prompts:   []json.RawMessage{json.RawMessage(`{"name":"greet_` + account + `"}`)},
		Answers: map[string]json.RawMessage{
			"call mail": text("mail"), "read box://" + account: json.RawMessage(`{"contents":[{"uri":"box://` + account +
				`","text":"box of ` + account + `"}]}`),
			"get greet_" + account: json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"hello ` + account +
				`"}}]}`),
		},
	}
}

// accounts is a passthrough daemon with one server, whose account is the file in the variable
// ACCOUNT. Alice has her own. shared sets the variable for all others.
func accounts(t *testing.T, shared bool) daemon.Config {
	t.Helper()
	dir := t.TempDir()
	cfg := passingOn(t, dir, map[string]upstreamtest.Script{"shared": answering("shared")})
	upstreamtest.Write(t, filepath.Join(dir, "alices"), answering("alice"))
	loaded := settings(t, dir, "tenants: {alice: {credentials: {box: {ACCOUNT: '${ALICES_ACCOUNT}'}}}}\n")
	cfg.Tenants, cfg.Limits, cfg.Workspace, cfg.PII = loaded.Tenants, loaded.Limits, loaded.Workspace, loaded.PII
	cfg.DataDir, cfg.Servers[0].Name = filepath.Join(dir, "data"), "box"
	for name := range cfg.Servers[0].Env {
		cfg.Servers[0].Env[name] = "${ACCOUNT}"
	}
	cfg.Lookup = func(name string) (string, bool) {
		file, ok := map[string]string{"ALICES_ACCOUNT": "alices", "ACCOUNT": "shared"}[name]
		return filepath.Join(dir, file), ok && (shared || name != "ACCOUNT")
	}
	return cfg
}

func rpc(method, params string) string {
	return `{"jsonrpc":"2.0","id":2,"method":"` + method + `","params":{` + params + `}}`
}

func TestTenantUsesItsOwnCredentials(t *testing.T) {
	url := serveTokens(t, accounts(t, true))
	for transport, ask := range transports {
		if transport == "2026-07-28" {
			continue // its helper calls tools only
		}
		for _, c := range []struct{ token, account, other string }{{aliceToken, "alice", "shared"}, {ownerToken, "shared", "alice"}} {
			for _, message := range []string{
				call("mail", `{}`), rpc("resources/list", ""), rpc("prompts/list", ""),
				rpc("resources/read", `"uri":"box://`+c.account+`"`), rpc("prompts/get", `"name":"greet_`+c.account+`"`),
			} {
				if got := ask(t, url, c.token, message); !strings.Contains(got, c.account) || strings.Contains(got, "of "+c.other) {
					t.Errorf("%s %s: %s answers %s", transport, c.account, message, got)
				}
			}
			if got := ask(t, url, c.token, rpc("resources/read", `"uri":"box://`+c.other+`"`)); strings.Contains(got, "box of "+c.other) {
				t.Errorf("%s reads the resource of %s: %s", c.account, c.other, got)
			}
		}
	}
	ask := transports["2026-07-28"]
	if got := ask(t, url, aliceToken, call("mail", `{}`)); !strings.Contains(got, "mail of alice") {
		t.Error(got)
	}
	if got := ask(t, url, ownerToken, call("mail", `{}`)); !strings.Contains(got, "mail of shared") {
		t.Error(got)
	}
}

// Without shared credentials, the tools are known, and other tenants cannot call them.
func TestTenantsWithoutCredentialsAreRefused(t *testing.T) {
	url := serveTokens(t, accounts(t, false))
	ask := transports["2025-11-25"]
	if got := ask(t, url, aliceToken, call("mail", `{}`)); !strings.Contains(got, "mail of alice") {
		t.Error(got)
	}
	if got := ask(t, url, ownerToken, call("mail", `{}`)); strings.Contains(got, "of alice") || !strings.Contains(got,
		"the variable ACCOUNT is not set") {
		t.Error(got)
	}
	if got := ask(t, url, ownerToken, rpc("resources/list", "")); strings.Contains(got, "alice") {
		t.Error(got)
	}
}
