package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// A request needs the scope of its tool or of resources, whatever the scopes of the token that opened
// its connection.
func TestRequestsNeedScopes(t *testing.T) {
	stock := newStock()
	stock.put("alice", "s:a", "of alice")
	resources := stock.resources()
	resources.Scope = "files"
	scoped := whoami
	scoped.Scope = "execute"
	values := &Completer{Scope: "execute", Values: func(ctx context.Context, c Completion) (redact.Redacted, error) {
		return gate.Redact(ctx, Completed{Values: []string{"value of " + c.Caller}})
	}}
	s, err := New(Config{Name: "test", Version: "1", Tools: []Tool{scoped}, Resources: resources, Complete: values})
	if err != nil {
		t.Fatal(err)
	}
	w := serveWebOf(t, s.HTTP(HTTPConfig{Verify: func(_ context.Context, given access.Credentials) (Caller, error) {
		all := map[string][]string{"both": {"execute", "files"}, "execute": {"execute"}, "files": {"files"}, "none": {}}
		return Caller{Name: "alice", Scopes: all[given.Token]}, nil
	}}))
	const refused = "does not have the scope"
	for _, c := range []struct{ token, tool, resource string }{
		{"both", "alice", "of alice"}, {"execute", "alice", refused}, {"files", refused, "of alice"}, {"none", refused, refused},
	} {
		auth := []string{"Authorization", "Bearer " + c.token}
		if got := read(t, w.call(t.Context(), today("whoami"), "whoami", auth...)); !strings.Contains(got, c.tool) {
			t.Errorf("%s: tools/call answers %s", c.token, got)
		}
		message := `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"s:a",` + modern + `}}`
		got := read(t, w.post(t.Context(), message, append(auth, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "resources/read",
			"Mcp-Name", "s:a")...))
		if !strings.Contains(got, c.resource) {
			t.Errorf("%s: resources/read answers %s", c.token, got)
		}
		for ref, want := range map[string]string{
			`"ref/prompt","name":"whoami"`: c.tool, `"ref/prompt","name":"server.tool"`: c.tool, `"ref/resource","uri":"s:{x}"`: c.resource,
		} {
			message := `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":` + ref +
				`},"argument":{"name":"x","value":""},` + modern + `}}`
			got := read(t, w.post(t.Context(), message, append(auth, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method",
				"completion/complete")...))
			if want != refused {
				want = `"value of alice"`
			}
			if !strings.Contains(got, want) {
				t.Errorf("%s: completion of %s answers %s", c.token, ref, got)
			}
		}
	}
	for _, opener := range []string{"both", "none", "files"} { // a new token may have more scopes than the one before, or fewer
		conn := w.connect("Authorization", "Bearer "+opener)
		for token, want := range map[string]string{"both": "alice", "execute": "alice", "files": refused} {
			got := read(t, w.post(t.Context(), protocol{}.callOf("whoami"),
				append(slices.Clone(conn), "Authorization", "Bearer "+token)...))
			if !strings.Contains(got, want) {
				t.Errorf("%s on a connection of %s: %s", token, opener, got)
			}
		}
	}
}

// A request without its scope is answered with 403 and the scope that it needs, in both kinds of
// revisions, and is reported to the access log. Batches are answered by JSON-RPC alone.
func TestScopeChallenge(t *testing.T) {
	resources := newStock().resources()
	resources.Scope = "files"
	scoped := whoami
	scoped.Scope = "execute"
	calls := make(chan Access, 10)
	s, err := New(Config{Name: "test", Version: "1", Tools: []Tool{scoped}, Resources: resources, Access: func(a Access) {
		if a.Method == "tools/call" { // a notification may still be handled
			calls <- a
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	w := serveWebOf(t, s.HTTP(HTTPConfig{
		Resource: &Protected{URL: "https://mcp.example/mcp", ScopePrefix: "sandpiper:"},
		Verify: func(_ context.Context, given access.Credentials) (Caller, error) {
			return Caller{Name: "alice", Scopes: strings.Split(given.Token, "+")}, nil
		},
	}))
	challenge := func(scope string) string {
		return fmt.Sprintf(`Bearer error="insufficient_scope", scope="sandpiper:%s", `+
			`resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/mcp"`, scope)
	}
	answer := func(id, scope string) string {
		return fmt.Sprintf(`{"error":{"code":-32600,"message":"the token of this request does not have the scope `+
			`\"%s\""},"id":%s,"jsonrpc":"2.0"}`+"\n", scope, id)
	}
	refused := func(name string, res *http.Response, id, scope string) {
		t.Helper()
		if got := read(t, res); res.StatusCode != http.StatusForbidden || res.Header.Get("WWW-Authenticate") != challenge(scope) ||
			got != answer(id, scope) {
			t.Errorf("%s: %s %q %s", name, res.Status, res.Header.Get("WWW-Authenticate"), got)
		}
	}
	auth := []string{"Authorization", "Bearer files"}
	conn := append(w.connect(auth...), auth...)
	for name, e := range map[string]protocol{"2026-07-28": today("whoami"), "2025-11-25": older(conn)} {
		refused(name, w.call(t.Context(), e, "whoami", auth...), "7", "execute")
		if len(calls) != 1 {
			t.Fatalf("%s: %d calls in the access log, want 1", name, len(calls))
		}
		want, call := Access{Caller: "alice", Method: "tools/call", Tool: "whoami", BytesIn: 2, Code: -32600}, <-calls
		if diff := cmp.Diff(want, call, cmpopts.IgnoreFields(Access{}, "Duration", "Remote")); diff != "" || call.Remote == "" {
			t.Errorf("%s: access log %s", name, diff)
		}
	}
	message := `{"jsonrpc":"2.0","id":"a","method":"resources/read","params":{"uri":"s:a"}}`
	refused("resources/read", w.post(t.Context(), message, append(conn, "Authorization", "Bearer execute")...), `"a"`, "files")
	if res := w.post(t.Context(), "["+message+"]", append(conn, "Authorization",
		"Bearer execute")...); res.StatusCode == http.StatusForbidden {
		t.Errorf("a batch: %s %s", res.Status, read(t, res))
	}
	if res := w.call(t.Context(), today("whoami"), "whoami", "Authorization", "Bearer execute"); res.StatusCode != http.StatusOK ||
		!strings.Contains(read(t, res), "alice") {
		t.Errorf("with the scope: %s", res.Status)
	}
}

func read(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A caller without the scope for it is not asked, and its answers are ignored.
func TestOnlyCallersWithScopeAreAsked(t *testing.T) {
	askable := Tool{Name: "askable", Schema: json.RawMessage(schema), Handle: func(ctx context.Context, c Call) (redact.Redacted, error) {
		return gate.Redact(ctx, fmt.Sprintf("asked %t, state %q, replies %d", c.Ask != nil || c.Require != nil, c.State, len(c.Replies)))
	}}
	s, err := New(Config{Name: "test", Version: "1", AskScope: "approve", Tools: []Tool{askable}})
	if err != nil {
		t.Fatal(err)
	}
	w := serveWebOf(t, s.HTTP(HTTPConfig{Verify: func(_ context.Context, given access.Credentials) (Caller, error) {
		return Caller{Name: "alice", Scopes: strings.Split(given.Token, "+")}, nil
	}}))
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
	message := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"askable","arguments":{},"requestState":"s","inputResponses":{"q":{"action":"accept","content":{}}},` + meta + `}}`
	for token, want := range map[string]string{
		"execute+approve": `asked true, state "s", replies 1`, "execute": `asked false, state "", replies 0`,
	} {
		got := w.text(w.post(t.Context(), message, append(today("askable").header, "Authorization", "Bearer "+token)...))
		if got != want {
			t.Errorf("%s: %s, want %s", token, got, want)
		}
	}
}

// A stream ends when its token is revoked or expires; a call completes.
func TestStreamsEndWithTheirToken(t *testing.T) {
	for name, refused := range map[string]func() (Caller, error){
		"revoked": func() (Caller, error) { return Caller{}, errors.New("revoked") },
		"expired": func() (Caller, error) { return Caller{Name: "alice", Expires: time.Now()}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			var over atomic.Bool
			s, err := New(Config{Name: "test", Version: "1", Tools: []Tool{whoami}, Resources: newStock().resources()})
			if err != nil {
				t.Fatal(err)
			}
			w := serveWebOf(t, s.HTTP(HTTPConfig{Recheck: time.Millisecond,
				Verify: func(context.Context, access.Credentials) (Caller, error) {
					if over.Load() {
						return refused()
					}
					return Caller{Name: "alice"}, nil
				}}))
			alice := []string{"Authorization", "Bearer x"}
			older, err := w.send(t.Context(), http.MethodGet, "", w.connect(alice...)...)
			if err != nil {
				t.Fatal(err)
			}
			defer older.Body.Close()
			listen := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["s:a"]},` + modern + `}}`
			newer := w.post(t.Context(), listen, append(alice, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method",
				"subscriptions/listen")...)
			over.Store(true)
			for _, res := range []*http.Response{older, newer} {
				if res.StatusCode != http.StatusOK {
					t.Fatal(res.Status)
				}
				_, _ = io.Copy(io.Discard, res.Body) // until the stream ends
			}
		})
	}
}
