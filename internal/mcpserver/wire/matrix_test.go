package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
)

// matrix is a server with tokens of alice and bob, of which "execute+files" of alice can be revoked.
type matrix struct {
	web     *web
	events  string // URL
	revoked atomic.Bool
}

func newMatrix(t *testing.T) *matrix {
	m := &matrix{}
	stock := newStock()
	stock.put("alice", "s:a", "of alice")
	resources := stock.resources()
	resources.Scope = "files"
	scoped := whoami
	scoped.Scope = "execute"
	s, err := New(Config{Name: "test", Version: "1", Tools: []Tool{scoped}, Resources: resources, Logs: &Logs{Scope: "execute"}})
	if err != nil {
		t.Fatal(err)
	}
	// Streams are checked when something is sent: not at intervals here.
	h := s.HTTP(HTTPConfig{Recheck: time.Hour, Return: time.Hour,
		Verify: func(_ context.Context, given access.Credentials) (Caller, error) {
			switch {
			case given.Token == "revoked" && m.revoked.Load():
				return Caller{}, access.ErrUnknown
			case given.Token == "revoked", given.Token == "valid":
				return Caller{Name: "alice", Scopes: []string{"execute", "files"}}, nil
			case given.Token == "bob":
				return Caller{Name: "bob"}, nil
			}
			return Caller{Name: "alice", Scopes: []string{"none"}}, nil
		}})
	m.web = serveWebOf(t, h)
	srv := httptest.NewServer(h.Events())
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	m.events = srv.URL
	return m
}

// messages are those of a client, and what a client with all scopes receives in each era; "" means nothing.
var messages = []struct {
	name, body, older, modern string
	secret                    string // what only a client with the scope receives
}{
	{"tools/call", `"method":"tools/call","params":{"name":"whoami","arguments":{}%s}`, `"text":"alice"`, `"text":"alice"`, "alice"},
	{"resources/read", `"method":"resources/read","params":{"uri":"s:a"%s}`, `"text":"of alice"`, `"text":"of alice"`, "of alice"},
	{"resources/subscribe", `"method":"resources/subscribe","params":{"uri":"s:a"%s}`, `"result":{}`, `"code":-32601`, `"result"`},
	{"logging/setLevel", `"method":"logging/setLevel","params":{"level":"info"%s}`, `"result":{}`, `"code":-32601`, `"result"`},
	{"subscriptions/listen", `"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["s:a"]}%s}`,
		`notifications/subscriptions/acknowledged`, `notifications/subscriptions/acknowledged`, `acknowledged`},
}

const withMeta = "," + modern

// first returns the status of a response and the text up to its first message.
func first(t *testing.T, res *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				return "200 " + data
			}
		}
		return "200"
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(res.StatusCode, " ", string(b))
}

// Each message is checked with the token that brought it, on every transport: of its caller, a token
// that was revoked, one without the scope, and one of another tenant.
func TestEveryMessageIsCheckedOnEveryTransport(t *testing.T) {
	m := newMatrix(t)
	older := m.web.connect("Authorization", "Bearer revoked")
	with := func(header []string, token string) []string {
		return append(slices.Clone(header), "Authorization", "Bearer "+token)
	}
	call := m.web.call(t.Context(), protocol{header: older}, "whoami")
	last := m.web.event(call)
	m.revoked.Store(true)
	for i, msg := range messages {
		body := func(meta string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`+msg.body+`}`, i+1, meta) }
		method := []string{"Mcp-Protocol-Version", stateless, "Mcp-Method", msg.name, "Mcp-Name",
			map[string]string{"tools/call": "whoami", "resources/read": "s:a"}[msg.name]}
		for transport, header := range map[string][]string{"2025-11-25": older, stateless: method} {
			meta, want := "", msg.older
			if transport == stateless {
				meta, want = withMeta, msg.modern
			}
			for token, want := range map[string]string{"valid": want, "revoked": "401", "none": "403", "bob": "404"} {
				if token == "bob" && transport == stateless { // there are no connections: it is his own request
					want = ""
				}
				ctx, leave := context.WithCancel(t.Context())
				res, err := m.web.send(ctx, http.MethodPost, body(meta), with(header, token)...)
				got := first(t, res, err)
				leave()
				if strings.Contains(msg.modern, "-32601") && transport == stateless && token != "revoked" && token != "none" {
					want = "-32601" // no such method, whoever asks
				}
				secret := msg.secret
				if token == "bob" {
					secret = "alice"
				}
				if !strings.Contains(got, want) || token != "valid" && strings.Contains(got, secret) {
					t.Errorf("%s, %s of %s: got %s, want %s", transport, msg.name, token, got, want)
				}
			}
		}
	}
	for token, want := range map[string]string{"revoked": "401", "none": "403", "bob": "404", "valid": "200"} {
		for name, header := range map[string][]string{"the first stream": nil, "a resumed stream": {"Last-Event-ID", last}} {
			ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
			res, err := m.web.send(ctx, http.MethodGet, "", with(append(slices.Clone(older), header...), token)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Status; !strings.HasPrefix(got, want) {
				t.Errorf("%s of %s: %s, want %s", name, token, got, want)
			}
			res.Body.Close()
			leave()
		}
	}
	for token, want := range map[string]string{"revoked": "401", "none": "405", "bob": "405", "valid": "405"} {
		res, err := m.web.send(t.Context(), http.MethodGet, "", with([]string{"Mcp-Protocol-Version", stateless}, token)...)
		if got := first(t, res, err); !strings.HasPrefix(got, want) {
			t.Errorf("GET of %s in %s: %s, want %s", token, stateless, got, want)
		}
	}
}

// The same over HTTP+SSE, on streams of each caller.
func TestEveryMessageIsCheckedOnEventStreams(t *testing.T) {
	for _, opener := range []string{"valid", "revoked", "none"} {
		m := newMatrix(t)
		c := dialEvents(t, t.Context(), m.events, opener)
		for i, msg := range messages {
			for token, want := range map[string]string{"valid": msg.older, "none": "does not have the scope", "bob": "404"} {
				status := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s%d",`+msg.body+`}`, token, i+1, ""), token)
				got := fmt.Sprint(status)
				if status == http.StatusAccepted {
					got = c.next().raw
				}
				if token == "none" && strings.Contains(msg.older, "-32601") {
					want = `"error"`
				}
				if !strings.Contains(got, want) || token != "valid" && strings.Contains(got, msg.secret) {
					t.Errorf("%s of %s on a stream of %s: got %s, want %s", msg.name, token, opener, got, want)
				}
			}
		}
		if opener != "revoked" {
			continue
		}
		// Nothing more reaches a stream whose token was revoked, whoever posts.
		m.revoked.Store(true)
		for token, want := range map[string]int{"revoked": http.StatusUnauthorized, "valid": http.StatusNotFound} {
			if got := c.post(protocol{}.callOf("whoami"), token); got != want {
				t.Errorf("%s posts to a stream whose token was revoked: %d, want %d", token, got, want)
			}
		}
		ended := make(chan string)
		go func() { a, _ := c.stream.next(); ended <- a.raw }()
		select {
		case got := <-ended:
			if got != "" {
				t.Errorf("a stream whose token was revoked receives %s", got)
			}
		case <-time.After(20 * time.Second):
			t.Error("a stream whose token was revoked goes on")
		}
		res, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.events+"/sse", nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Header.Set("Authorization", "Bearer revoked")
		opened, err := http.DefaultClient.Do(res)
		if got := first(t, opened, err); !strings.HasPrefix(got, "401") {
			t.Errorf("a stream of a revoked token: %s", got)
		}
	}
}

// Over stdio there is one caller, with all scopes.
func TestEveryMessageIsAnsweredOverStdio(t *testing.T) {
	stock := newStock()
	stock.put("alice", "s:a", "of alice")
	resources := stock.resources()
	resources.Scope = "files"
	scoped := whoami
	scoped.Scope = "execute"
	for _, era := range []string{"2025-11-25", stateless} {
		c := dial(t, Config{Caller: "alice", Tools: []Tool{scoped}, Resources: resources, Logs: &Logs{Scope: "execute"}})
		meta := withMeta
		if era != stateless {
			meta = ""
			c.send("%s", hello)
			c.read()
			c.send("%s", ready)
		}
		for i, msg := range messages {
			c.send(`{"jsonrpc":"2.0","id":%d,`+msg.body+`}`, i+1, meta)
			want := map[string]string{"2025-11-25": msg.older, stateless: msg.modern}[era]
			if got := c.read(); !strings.Contains(got.raw, want) {
				b, _ := json.Marshal(got.raw)
				t.Errorf("%s, %s: got %s, want %s", era, msg.name, b, want)
			}
		}
	}
}
