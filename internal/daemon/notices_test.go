package daemon_test

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// notices returns a function that returns the next log message of a new connection.
func notices(t *testing.T, url, token string) func() map[string]any {
	t.Helper()
	connection := connect(t, url, token)
	lines := bufio.NewScanner(sendHTTP(t, "GET", url+"/mcp", "", token, connection...).Body)
	const level = `{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"warning"}}`
	if got := answer(t, sendHTTP(t, "POST", url+"/mcp", level, token, connection...)); !strings.Contains(got, `"result":{}`) {
		t.Fatal(got)
	}
	return func() map[string]any {
		t.Helper()
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			var m struct {
				Method string
				Params map[string]any
			}
			if ok && json.Unmarshal([]byte(data), &m) == nil && m.Method == "notifications/message" {
				return m.Params
			}
		}
		t.Fatal("the stream ended", lines.Err())
		return nil
	}
}

// A person is told of denials and waiting approvals of the own tenant, and of servers that do
// not work.
func TestNotices(t *testing.T) {
	cfg := passingOn(t, t.TempDir(), map[string]upstreamtest.Script{"good": scripted("echo")})
	cfg.Servers = append(cfg.Servers, config.Server{Name: "bad", Command: "no-such-program-of-ada@example.org"})
	cfg.Policy = policy.Config{Rules: []policy.Rule{{Name: "no echo", Decision: policy.Block}}}
	url, d, _ := startTokens(t, cfg)
	if _, err := d.Servers.List(t.Context(), "bad"); err == nil {
		t.Fatal("the server works")
	}
	owner, alice := notices(t, url, ownerToken), notices(t, url, aliceToken)
	for name, next := range map[string]func() map[string]any{"owner": owner, "alice": alice} {
		got := next()
		body, _ := got["data"].(map[string]any)
		if got["logger"] != "servers" || got["level"] != "error" || body["server"] != "bad" || !strings.Contains(body["message"].(string),
			"not found") {
			t.Errorf("%s: %v", name, got)
		}
		if text, _ := json.Marshal(got); strings.Contains(string(text), "ada@") {
			t.Errorf("a private value: %s", text)
		}
	}
	if got := transports["2026-07-28"](t, url, ownerToken, call("echo", `{}`)); !strings.Contains(got, "policy says block") {
		t.Fatal(got)
	}
	home, err := d.Tenants.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Release(t.Context())
	asked, err := home.Approvals.Create(t.Context(), approval.Question{
		Binding: approval.Binding{Kind: approval.Call, Ref: tool.Ref{Server: "good", Tool: "echo"}, Arguments: "x"},
		Shown:   json.RawMessage(`{"secret":1}`), Rule: "ask me",
	})
	if err != nil {
		t.Fatal(err)
	}
	other := func(next func() map[string]any) map[string]any { // the bad server is started again and again
		for {
			if got := next(); got["logger"] != "servers" {
				return got
			}
		}
	}
	for _, want := range []map[string]any{
		{"level": "warning", "logger": "policy", "data": map[string]any{"message": "policy or a guardrail denied a call", "server": "good",
			"tool": "echo", "rule": "no echo"}},
		{"level": "warning", "logger": "approvals", "data": map[string]any{
			"message": "a call waits for the person to approve it", "hint": "sandpiper approvals show " + asked.ID,
			"server": "good", "tool": "echo", "rule": "ask me", "approval_id": asked.ID,
		}},
	} {
		if diff := cmp.Diff(want, other(owner)); diff != "" {
			t.Error(diff)
		}
	}
	// The next message of alice is her own.
	transports["2026-07-28"](t, url, aliceToken, call("echo", `{}`))
	if got := other(alice); got["logger"] != "policy" {
		t.Errorf("alice gets %v", got)
	}
	id, err := tenant.Parse("alice")
	if err != nil {
		t.Fatal(err)
	}
	hers, err := d.Tenants.Acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer hers.Release(t.Context())
	asked, err = hers.Approvals.Create(t.Context(), approval.Question{
		Binding: approval.Binding{Kind: approval.Call, Ref: tool.Ref{Server: "good", Tool: "echo"}, Arguments: "y"},
		Shown:   json.RawMessage(`{}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := other(alice)["data"].(map[string]any); got["hint"] != "sandpiper approvals show "+asked.ID+" --tenant alice" {
		t.Errorf("alice gets %v", got)
	}
}

// A server that the tier of alice hides is neither in her log messages nor in her completions.
func TestHiddenServersAreNeitherLoggedNorCompleted(t *testing.T) {
	dir := t.TempDir()
	cfg := passingOn(t, dir, map[string]upstreamtest.Script{"good": scripted("echo", "hidden_tool")})
	for _, name := range []string{"hidden", "shown"} {
		cfg.Servers = append(cfg.Servers, config.Server{Name: name, Command: "no-such-program"})
	}
	loaded := settings(t, dir, "tiers: {free: {tenants: [alice], servers: [good, shown], tools: ['*.echo']}}\n")
	cfg.Tenants, cfg.Limits, cfg.Workspace, cfg.Profile, cfg.PII, cfg.Backend = loaded.Tenants, loaded.Limits, loaded.Workspace, "full",
		loaded.PII, fakes
	url, d, _ := startTokens(t, cfg)
	for _, name := range []string{"hidden", "shown"} {
		if _, err := d.Servers.List(t.Context(), name); err == nil {
			t.Fatal("the server works")
		}
	}
	if _, err := d.Servers.List(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	of := func(next func() map[string]any) string { return next()["data"].(map[string]any)["server"].(string) }
	owner, alice := notices(t, url, ownerToken), notices(t, url, aliceToken)
	if first, second := of(owner), of(owner); first != "hidden" || second != "shown" {
		t.Errorf("the owner is told of %s and %s", first, second)
	}
	if got := of(alice); got != "shown" {
		t.Errorf("alice is told of %s", got)
	}
	complete := `{"jsonrpc":"2.0","id":2,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"get_tool_definition"},"argument":{"name":"tool_name","value":""}}}`
	for name, ask := range transports {
		if got := ask(t, url, aliceToken, complete); strings.Contains(got, "hidden") || !strings.Contains(got, "good.echo") {
			t.Errorf("over %s: %s", name, got)
		}
	}
}
