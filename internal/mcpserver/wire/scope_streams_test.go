package wire

import (
	"bufio"
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

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/home/stream"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// scopedServer has a tool that needs the scope execute, one that asks a question, resources and logs.
func scopedServer(t *testing.T) *Server {
	t.Helper()
	stock := newStock()
	stock.put("alice", "s:a", "of alice")
	resources := stock.resources()
	resources.Scope = "files"
	scoped := whoami
	scoped.Scope = "execute"
	asking := Tool{Name: "asking", Scope: "execute", Schema: json.RawMessage(schema), Handle: asks("user_name", nameForm)}
	s, err := New(Config{Name: "test", Version: "1", AskScope: "approve", Tools: []Tool{scoped, asking}, Resources: resources,
		Logs: &Logs{Scope: "execute"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// scopesOfToken is a verifier: the scopes of a token of alice are its text, separated by +.
func scopesOfToken(_ context.Context, given access.Credentials) (Caller, error) {
	return Caller{Name: "alice", Scopes: strings.Split(given.Token, "+")}, nil
}

// Over HTTP+SSE the scopes of the token that posts a message count, not of the one that opened the stream.
func TestPostingTokenNeedsTheScope(t *testing.T) {
	url := serveEvents(t, scopedServer(t).HTTP(HTTPConfig{Verify: scopesOfToken}))
	for _, opener := range []string{"none", "files", "execute+files"} {
		c := dialEvents(t, t.Context(), url, opener)
		for _, tc := range []struct{ token, message, want string }{
			{"execute", protocol{}.callOf("whoami"), "alice"},
			{"files", protocol{}.callOf("whoami"), "does not have the scope"},
			{"files", `{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"s:a"}}`, "of alice"},
			{"execute", `{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"s:a"}}`, "does not have the scope"},
			{"files", `{"jsonrpc":"2.0","id":9,"method":"logging/setLevel","params":{"level":"info"}}`, "does not have the scope"},
		} {
			c.must(tc.message, tc.token)
			if got := c.next().raw; !strings.Contains(got, tc.want) {
				t.Errorf("%s on a stream of %s: %s answers %s", tc.token, opener, tc.message, got)
			}
		}
		for body, want := range map[string]int{"{": http.StatusBadRequest,
			`{"jsonrpc":"2.0","id":1,"method":"nothing"}`: http.StatusAccepted} {
			if got := c.post(body, "execute"); got != want {
				t.Errorf("%s: %d, want %d", body, got, want)
			}
		}
	}
}

// A stream is read with the scopes that its messages need, also by a daemon that was started since.
func TestResumedStreamNeedsTheScopeOfItsRequest(t *testing.T) {
	cipher, err := sealed.New(make([]byte, sealed.KeySize), "alice")
	if err != nil {
		t.Fatal(err)
	}
	kept := stream.New(stream.Config{Dir: t.TempDir(), Cipher: cipher})
	cfg := HTTPConfig{Verify: scopesOfToken, Return: time.Hour,
		Resource: &Protected{URL: "https://mcp.example/mcp", ScopePrefix: "sandpiper:"},
		Answers:  func(_ context.Context, _ string, use func(*stream.Store) error) error { return use(kept) }}
	w, next := serveWebOf(t, scopedServer(t).HTTP(cfg)), serveWebOf(t, scopedServer(t).HTTP(cfg))
	all := []string{"Authorization", "Bearer execute+files"}
	conn := w.connect(all...)
	with := func(token string) []string { return append(slices.Clone(conn), "Authorization", "Bearer "+token) }
	reads := `{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"s:a"}}`
	for _, tc := range []struct {
		message, scope, other, answer string
	}{{protocol{}.callOf("whoami"), "execute", "files", `"text":"alice"`}, {reads, "files", "execute", `"text":"of alice"`}} {
		res := w.post(t.Context(), tc.message, with("execute+files")...)
		var last string
		for lines := bufio.NewScanner(res.Body); lines.Scan(); { // the answer too
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok && last == "" {
				last = id
			}
		}
		for name, w := range map[string]*web{"running": w, "restarted": next} {
			for _, token := range []string{"none", tc.other} {
				res := w.get(t.Context(), last, with(token)...)
				challenge := res.Header.Get("WWW-Authenticate")
				if got := read(t, res); res.StatusCode != http.StatusForbidden || !strings.Contains(challenge,
					fmt.Sprintf(`error="insufficient_scope", scope="sandpiper:%s"`, tc.scope)) || strings.Contains(got, tc.answer) {
					t.Errorf("%s: %s resumes a stream that needs %s: %s %s %s", name, token, tc.scope, res.Status, challenge, got)
				}
			}
			if got := read(t, w.get(t.Context(), last, with(tc.scope)...)); !strings.Contains(got, tc.answer) {
				t.Errorf("%s: with the scope %s: %s", name, tc.scope, got)
			}
		}
	}
	// An answer of an earlier version is only for who may read any.
	if err := kept.Put(stream.Answer{Connection: strings.Repeat("A", 26), Stream: "s", Index: 1, Data: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int{"execute": http.StatusForbidden, "execute+files": http.StatusOK} {
		if res := next.get(t.Context(), "s_0", "Mcp-Session-Id", strings.Repeat("A", 26), "Authorization",
			"Bearer "+token); res.StatusCode != want {
			t.Errorf("%s: %s", token, res.Status)
		}
	}

	// The first stream of a connection has the notifications that were requested on it.
	opens := func(token string) int {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		res, err := w.send(ctx, http.MethodGet, "", with(token)...)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if got := opens("none"); got != http.StatusOK {
		t.Errorf("before anything was requested: %d", got)
	}
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"info"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"s:a"}}`,
	} {
		if got := read(t, w.post(t.Context(), message, with("execute+files")...)); strings.Contains(got, `"error"`) {
			t.Fatal(got)
		}
	}
	for token, want := range map[string]int{"none": http.StatusForbidden, "execute": http.StatusForbidden, "files": http.StatusForbidden} {
		if got := opens(token); got != want {
			t.Errorf("the first stream, read with %s: %d", token, got)
		}
	}
}

const helloAskable = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`

// A question is answered with the scope for it, whoever was asked.
func TestAnswerNeedsTheScope(t *testing.T) {
	h := scopedServer(t).HTTP(HTTPConfig{Verify: scopesOfToken})
	w := serveWebOf(t, h)
	opened := w.post(t.Context(), helloAskable, "Authorization", "Bearer execute+approve")
	conn := []string{"Mcp-Session-Id", opened.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-03-26"}
	with := func(token string) []string { return append(slices.Clone(conn), "Authorization", "Bearer "+token) }
	_ = read(t, w.post(t.Context(), ready, with("execute")...))
	call := w.post(t.Context(), protocol{}.callOf("asking"), with("execute+approve")...)
	events := eventReader{t, bufio.NewScanner(call.Body)}
	question, ok := events.next()
	if !ok || question.Method != "elicitation/create" {
		t.Fatalf("no question: %s", question.raw)
	}
	id, err := json.Marshal(question.ID)
	if err != nil {
		t.Fatal(err)
	}
	reply := func(name string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s:{"action":"accept","content":{"name":%q}}}`, id, `"result"`, name)
	}
	for name, body := range map[string]string{
		"plain": reply("mallory"), "a batch": "[" + reply("mallory") + "]", "a batch before other text": "[" + reply("mallory") + "] x",
		"escaped":                       strings.Replace(reply("mallory"), `"action"`, `"\u0061ction"`, 1),
		"with a method of another case": strings.Replace(reply("mallory"), `"id"`, `"Method":"ping","id"`, 1),
		"with a result of another case": strings.TrimSuffix(reply("mallory"), "}") + `,"Result":{}}`,
		"twice":                         strings.Replace(reply("mallory"), `"result"`, `"result":{},"result"`, 1),
	} {
		res := w.post(t.Context(), body, with("execute+files")...)
		if got := read(t, res); res.StatusCode != http.StatusForbidden || !strings.Contains(got, "approve") {
			t.Errorf("%s: %s %s", name, res.Status, got)
		}
	}
	if res := w.post(t.Context(), reply("alice"), with("approve")...); res.StatusCode != http.StatusAccepted {
		t.Errorf("with the scope: %s", res.Status)
	}
	if got, _ := events.next(); !strings.Contains(got.raw, "alice") {
		t.Errorf("the call got %s", got.raw)
	}

	url := serveEvents(t, scopedServer(t).HTTP(HTTPConfig{Verify: scopesOfToken}))
	c := dialEvents(t, t.Context(), url, "execute+approve")
	if got := c.post(reply("mallory"), "execute"); got != http.StatusForbidden {
		t.Errorf("over HTTP+SSE: %d", got)
	}
	if got := c.post(reply("alice"), "approve"); got != http.StatusAccepted {
		t.Errorf("over HTTP+SSE, with the scope: %d", got)
	}
}

// Requests of a connection are cancelled with the scopes that they need.
func TestCancellationNeedsTheScope(t *testing.T) {
	run := newEndless()
	endless := run.tool()
	endless.Scope = "execute"
	s, err := New(Config{Name: "test", Version: "1", Tools: []Tool{endless}})
	if err != nil {
		t.Fatal(err)
	}
	h := s.HTTP(HTTPConfig{Verify: scopesOfToken, Return: time.Hour})
	w := serveWebOf(t, h)
	const cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
	cancel := map[string]string{
		"plain": cancelled, "a batch": "[" + cancelled + "]",
		"with a method of another case": strings.TrimSuffix(cancelled, "}") + `,"Method":"ping"}`,
	}
	conn := w.connect("Authorization", "Bearer execute")
	w.post(t.Context(), protocol{}.callOf("endless"), conn...)
	<-run.started
	with := func(token string) []string { return append(slices.Clone(conn), "Authorization", "Bearer "+token) }
	refused := func(name string, status int) {
		t.Helper()
		if status != http.StatusForbidden {
			t.Errorf("%s: %d", name, status)
		}
		select {
		case err := <-run.ended:
			t.Fatalf("%s ended the call: %v", name, err)
		default:
		}
	}
	for name, body := range cancel {
		refused(name, w.post(t.Context(), body, with("files")...).StatusCode)
	}
	res, err := w.send(t.Context(), http.MethodDelete, "", with("files")...)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	refused("DELETE", res.StatusCode)
	if res := w.post(t.Context(), cancelled, with("execute")...); res.StatusCode != http.StatusAccepted {
		t.Errorf("with the scope: %s", res.Status)
	}
	<-run.ended
	if res, err = w.send(t.Context(), http.MethodDelete, "", w.connect("Authorization", "Bearer files")...); err != nil ||
		res.StatusCode != http.StatusNoContent {
		t.Errorf("an own connection without requests: %v %v", res, err)
	}
	res.Body.Close()

	url := serveEvents(t, h)
	c := dialEvents(t, t.Context(), url, "execute")
	c.must(protocol{}.callOf("endless"), "execute")
	<-run.started
	for name, body := range cancel {
		if name != "a batch" { // which this transport does not have
			refused("over HTTP+SSE, "+name, c.post(body, "files"))
		}
	}
	c.must(cancelled, "execute")
	<-run.ended
}

// A stream that is open ends when its connection asks, with another token, for notifications that need a
// scope that the token of the stream does not have, or when its token loses a scope.
func TestOpenStreamNeedsTheScopeOfLaterRequests(t *testing.T) {
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"info"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"s:a"}}`,
	} {
		w := serveWebOf(t, scopedServer(t).HTTP(HTTPConfig{Verify: scopesOfToken}))
		for _, token := range []string{"execute+files", "none"} {
			ends := token == "none"
			conn := w.connect("Authorization", "Bearer execute+files")
			with := func(token string) []string { return append(slices.Clone(conn), "Authorization", "Bearer "+token) }
			ctx, leave := context.WithCancel(t.Context())
			res, err := w.send(ctx, http.MethodGet, "", with(token)...)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(res, err)
			}
			ended := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, res.Body)
				ended <- errors.Join(err, res.Body.Close())
			}()
			if got := read(t, w.post(t.Context(), message, with("execute+files")...)); strings.Contains(got, `"error"`) {
				t.Fatal(got)
			}
			limit := 20 * time.Second
			if !ends {
				limit = 300 * time.Millisecond
			}
			select {
			case <-ended:
				if !ends {
					t.Errorf("%s: the stream of %s ended", message, token)
				}
			case <-time.After(limit):
				if ends {
					t.Errorf("%s: the stream of %s goes on", message, token)
				}
			}
			leave()
		}
	}
}

func TestStreamEndsWhenItsTokenLosesAScope(t *testing.T) {
	var lost atomic.Bool
	verify := func(context.Context, access.Credentials) (Caller, error) {
		if lost.Load() {
			return Caller{Name: "alice", Scopes: []string{"files"}}, nil
		}
		return Caller{Name: "alice", Scopes: []string{"execute", "files"}}, nil
	}
	w := serveWebOf(t, scopedServer(t).HTTP(HTTPConfig{Verify: verify, Recheck: time.Millisecond}))
	res, err := w.send(t.Context(), http.MethodGet, "", w.connect("Authorization", "Bearer x")...)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lost.Store(true)
	ended := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, res.Body); close(ended) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the stream goes on")
	}
}
