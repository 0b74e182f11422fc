package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// sse is a client of the HTTP+SSE transport of 2024-11-05.
type sse struct {
	t        *testing.T
	endpoint string // for POST requests
	stream   eventReader
}

func serveEvents(t *testing.T, h *HTTP) string {
	t.Helper()
	srv := httptest.NewServer(h.Events())
	t.Cleanup(func() { h.Close(); srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

// dialEvents opens a stream with a token and initializes it.
func dialEvents(t *testing.T, ctx context.Context, url, token string) *sse {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	c := &sse{t: t, stream: eventReader{t, bufio.NewScanner(res.Body)}}
	for c.stream.lines.Scan() {
		if path, ok := strings.CutPrefix(c.stream.lines.Text(), "data: "); ok {
			c.endpoint = url + path
			break
		}
	}
	if c.endpoint == "" {
		t.Fatalf("%s: the stream has no endpoint event", res.Status)
	}
	c.must(hello, token)
	c.next()
	c.must(ready, token)
	return c
}

// post sends one message and returns its status.
func (c *sse) post(body, token string) int {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.endpoint, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

func (c *sse) must(body, token string) {
	c.t.Helper()
	if status := c.post(body, token); status != http.StatusAccepted {
		c.t.Fatalf("%s: status %d", body, status)
	}
}

func (c *sse) next() answer {
	c.t.Helper()
	a, ok := c.stream.next()
	if !ok {
		c.t.Fatal("the stream ended")
	}
	return a
}

func TestEventStreamsKeepTheirCaller(t *testing.T) {
	s, err := New(Config{Name: "test", Version: "1", Caller: "owner", Tools: []Tool{whoami}})
	if err != nil {
		t.Fatal(err)
	}
	url := serveEvents(t, s.HTTP(HTTPConfig{Verify: verify}))
	alice := dialEvents(t, t.Context(), url, "token-of-alice")
	alice.must(protocol{}.callOf("whoami"), "token-of-alice")
	if a := alice.next(); len(a.Result.Content) != 1 || a.Result.Content[0].Text != "alice" {
		t.Errorf("the caller is %s", a.raw)
	}
}

func TestEventStreamsReceiveOnlyTheirCallersMessages(t *testing.T) {
	stock := newStock()
	r := stock.resources()
	r.Every = time.Millisecond
	s, err := New(Config{Name: "test", Version: "1", Caller: "owner", Resources: r})
	if err != nil {
		t.Fatal(err)
	}
	url := serveEvents(t, s.HTTP(HTTPConfig{Verify: verify}))
	stock.put("alice", "s:a", "of alice")
	stock.put("owner", "s:a", "of the owner")
	alice := dialEvents(t, t.Context(), url, "token-of-alice")
	alice.must(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"s:a"}}`, "token-of-alice")
	if a := alice.next(); !strings.Contains(a.raw, "of alice") {
		t.Errorf("read %s", a.raw)
	}
	for _, uri := range []string{"s:a", "s:b"} {
		alice.must(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"`+uri+`"}}`, "token-of-alice")
		alice.next()
	}
	stock.put("owner", "s:a", "new")
	stock.put("alice", "s:b", "new")
	if got := alice.stream.nextURI(); got != "s:b" {
		t.Errorf("notified of the owner's %s", got)
	}
}

func TestAnotherCallersEventStreamDoesNotExist(t *testing.T) {
	s, err := New(Config{Name: "test", Version: "1", Caller: "owner", Tools: []Tool{whoami}})
	if err != nil {
		t.Fatal(err)
	}
	url := serveEvents(t, s.HTTP(HTTPConfig{Verify: verify}))
	alice := dialEvents(t, t.Context(), url, "token-of-alice")
	if status := alice.post(protocol{}.callOf("whoami"), "token-of-bob"); status != http.StatusNotFound {
		t.Errorf("bob's POST to the stream of alice: status %d", status)
	}
	if status := alice.post(protocol{}.callOf("whoami"), "token-of-mallory"); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: status %d", status)
	}
	alice.endpoint = url + "/sse?sessionid=unknown"
	if status := alice.post(protocol{}.callOf("whoami"), "token-of-alice"); status != http.StatusNotFound {
		t.Errorf("an unknown stream: status %d", status)
	}
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestLargePostToEventStreamIsNotRead(t *testing.T) {
	s, err := New(Config{Name: "test", Version: "1", Caller: "owner", Tools: []Tool{whoami}})
	if err != nil {
		t.Fatal(err)
	}
	h := s.HTTP(HTTPConfig{MaxBody: 1 << 10})
	t.Cleanup(func() { h.Close() })
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/sse?sessionid=x", unread{t})
	r.ContentLength = 2 << 10
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.Events().ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", w.Code)
	}
}

// A connection before 2026-07-28 belongs to its caller, for every method.
func TestAnotherCallersConnectionDoesNotExist(t *testing.T) {
	run := newEndless()
	w := serveWeb(t, HTTPConfig{Verify: verify, Return: time.Hour}, run.tool(), whoami)
	connection := w.connect("Authorization", "Bearer token-of-alice")
	res := w.call(t.Context(), older(connection), "endless")
	last := w.event(res)
	<-run.started
	bob := append(append([]string{}, connection...), "Authorization", "Bearer token-of-bob")
	for name, send := range map[string]func() (*http.Response, error){
		"POST": func() (*http.Response, error) {
			return w.send(t.Context(), "POST", protocol{}.callOf("whoami"), bob...)
		},
		"initialized": func() (*http.Response, error) { return w.send(t.Context(), "POST", ready, bob...) },
		"GET":         func() (*http.Response, error) { return w.send(t.Context(), "GET", "", bob...) },
		"resumption": func() (*http.Response, error) {
			return w.send(t.Context(), "GET", "", append(bob, "Last-Event-ID", last)...)
		},
		"cancellation": func() (*http.Response, error) {
			return w.send(t.Context(), "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, bob...)
		},
		"DELETE": func() (*http.Response, error) { return w.send(t.Context(), "DELETE", "", bob...) },
	} {
		t.Run(name, func(t *testing.T) {
			res, err := send()
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusNotFound || string(body) != "session not found\n" {
				t.Errorf("%s %s", res.Status, body)
			}
		})
	}
	select {
	case err := <-run.ended:
		t.Errorf("a request of bob ended the call of alice: %v", err)
	default:
	}
}

// With tokens, a request without a caller is rejected by every transport.
func TestRequestWithoutCallerIsRejected(t *testing.T) {
	called := Tool{Name: "whoami", Schema: json.RawMessage(schema), Handle: func(ctx context.Context, c Call) (redact.Redacted, error) {
		t.Errorf("called as %q", c.Caller)
		return gate.Redact(ctx, "")
	}}
	s, err := New(Config{Name: "test", Version: "1", Caller: "owner", Tools: []Tool{called}, Resources: newStock().resources()})
	if err != nil {
		t.Fatal(err)
	}
	server, subscriptions := s.build(t.Context(), authenticator{verify: verify}, &mcp.ServerOptions{})
	defer subscriptions.close()
	in, ours := io.Pipe()
	theirs, out := io.Pipe()
	session, err := server.Connect(t.Context(), newLineConn(in, out, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { ours.Close(); theirs.Close(); session.Close() }()
	lines := bufio.NewScanner(theirs)
	for _, message := range []string{
		hello,
		today("whoami").callOf("whoami"),
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"s:a",` + modern + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modern + `}}`,
	} {
		if _, err := io.WriteString(ours, message+"\n"); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), "requires a token") {
			t.Errorf("%s is answered %s", message, lines.Text())
		}
	}
}

func TestEmptyCallerOfATokenIsUnauthorized(t *testing.T) {
	nobody := func(context.Context, access.Credentials) (Caller, error) { return Caller{}, nil }
	w := serveWeb(t, HTTPConfig{Verify: nobody}, whoami)
	if res := w.call(t.Context(), today("whoami"), "whoami", "Authorization", "Bearer x"); res.StatusCode != http.StatusUnauthorized {
		t.Error(res.Status)
	}
	if res := w.post(t.Context(), hello, "Authorization", "Bearer x"); res.StatusCode != http.StatusUnauthorized {
		t.Error(res.Status)
	}
}

// All entry points get their caller from the authenticator, which is in caller.go.
func TestOnlyTheAuthenticatorReadsTokens(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	readers := map[string]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") && regexp.MustCompile(`TokenInfo|"Authorization"`).Match(text) {
			readers[name] = true
		}
	}
	if diff := cmp.Diff(map[string]bool{"caller.go": true}, readers); diff != "" {
		t.Error(diff)
	}
}
