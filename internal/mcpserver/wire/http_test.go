package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// web is a Server with a real HTTP server.
type web struct {
	t    *testing.T
	http *HTTP
	url  string
}

func serveWeb(t *testing.T, cfg HTTPConfig, tools ...Tool) *web {
	t.Helper()
	s, err := New(Config{Name: "test", Version: "1", Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	return serveWebOf(t, s.HTTP(cfg))
}

func serveWebOf(t *testing.T, h *HTTP) *web {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() { h.Close(); srv.CloseClientConnections(); srv.Close() })
	return &web{t: t, http: h, url: srv.URL}
}

// post sends one message. The response is an open stream or a body.
func (w *web) post(ctx context.Context, body string, header ...string) *http.Response {
	w.t.Helper()
	res, err := w.send(ctx, http.MethodPost, body, header...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { res.Body.Close() })
	return res
}

// try makes a call that may be interrupted.
func (w *web) try(ctx context.Context, e protocol, tool string) (*http.Response, error) {
	return w.send(ctx, http.MethodPost, e.callOf(tool), e.header...)
}

// get resumes a stream after an event.
func (w *web) get(ctx context.Context, after string, header ...string) *http.Response {
	w.t.Helper()
	res, err := w.send(ctx, http.MethodGet, "", append(append([]string{}, header...), "Last-Event-ID", after)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { res.Body.Close() })
	return res
}

func (w *web) send(ctx context.Context, method, body string, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return http.DefaultClient.Do(r)
}

// connect opens a connection of version 2025-11-25 and returns its headers.
func (w *web) connect(header ...string) []string {
	w.t.Helper()
	res := w.post(w.t.Context(), hello, header...)
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		w.t.Fatalf("initialize: %s %s", res.Status, body)
	}
	header = append(header, "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25")
	if res := w.post(w.t.Context(), ready, header...); res.StatusCode != http.StatusAccepted {
		w.t.Fatalf("initialized: %s", res.Status)
	}
	return header
}

// protocol determines the headers and the _meta of a call.
type protocol struct {
	header []string
	meta   string
}

func today(tool string) protocol {
	return protocol{[]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool},
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`}
}

func older(connection []string) protocol { return protocol{header: connection} }

func (w *web) call(ctx context.Context, e protocol, tool string, header ...string) *http.Response {
	w.t.Helper()
	return w.post(ctx, e.callOf(tool), append(append([]string{}, e.header...), header...)...)
}

func (e protocol) callOf(tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":{}%s}}`, tool, e.meta)
}

// text returns the text of the answer in a stream.
func (w *web) text(res *http.Response) string {
	w.t.Helper()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var a answer
		if ok && json.Unmarshal([]byte(data), &a) == nil && a.ID != nil && len(a.Result.Content) > 0 {
			return a.Result.Content[0].Text
		}
	}
	w.t.Fatalf("%s: the stream ended without an answer (%v)", res.Status, lines.Err())
	return ""
}

// event returns the id of the first event in a stream.
func (w *web) event(res *http.Response) string {
	w.t.Helper()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			return id
		}
	}
	w.t.Fatal("the stream has no event with an id")
	return ""
}

// endless is a tool that runs until its context ends. It reports its start and the cause of its end.
type endless struct {
	started chan struct{}
	ended   chan error
}

func newEndless() *endless { return &endless{make(chan struct{}, 1), make(chan error, 1)} }

func (e *endless) tool() Tool {
	return Tool{Name: "endless", Schema: json.RawMessage(schema), Handle: func(ctx context.Context, c Call) (redact.Redacted, error) {
		e.started <- struct{}{}
		<-ctx.Done()
		e.ended <- context.Cause(ctx)
		return gate.Redact(context.Background(), "cut short")
	}}
}

var whoami = Tool{Name: "whoami", Schema: json.RawMessage(schema), Handle: func(ctx context.Context, c Call) (redact.Redacted, error) {
	return gate.Redact(ctx, c.Caller)
}}

var tokens = map[string]string{"token-of-alice": "alice", "token-of-bob": "bob"}

func verify(_ context.Context, given access.Credentials) (Caller, error) {
	if tokens[given.Token] == "" {
		return Caller{}, access.ErrUnknown
	}
	return Caller{Name: tokens[given.Token]}, nil
}

func TestHTTPInAllRevisions(t *testing.T) {
	w := serveWeb(t, HTTPConfig{Verify: verify}, whoami)
	alice := []string{"Authorization", "Bearer token-of-alice"}
	if got := w.text(w.call(t.Context(), today("whoami"), "whoami", alice...)); got != "alice" {
		t.Errorf("2026-07-28: the caller is %q", got)
	}
	if got := w.text(w.call(t.Context(), older(w.connect(alice...)), "whoami")); got != "alice" {
		t.Errorf("2025-11-25: the caller is %q", got)
	}
}

func TestHTTPRequiresToken(t *testing.T) {
	w := serveWeb(t, HTTPConfig{Verify: verify}, whoami)
	connection := w.connect("Authorization", "Bearer token-of-alice")
	for name, header := range map[string][]string{
		"none":                    {"Authorization", ""},
		"a wrong one":             {"Authorization", "Bearer token-of-mallory"},
		"of another scheme":       {"Authorization", "Basic dG9rZW4tb2YtYWxpY2U="},
		"a connection of another": {"Authorization", "Bearer token-of-bob"},
	} {
		t.Run(name, func(t *testing.T) {
			for version, res := range map[string]*http.Response{
				"older":  w.call(t.Context(), older(connection), "whoami", header...),
				"stream": w.get(t.Context(), "x_0", append(connection, header...)...),
			} {
				if res.StatusCode != http.StatusUnauthorized && (name != "a connection of another" ||
					res.StatusCode != http.StatusNotFound) {
					t.Errorf("%s: %s", version, res.Status)
				}
			}
			if name == "a connection of another" {
				return // this version has none
			}
			if res := w.call(t.Context(), today("whoami"), "whoami", header...); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("modern: %s", res.Status)
			}
		})
	}
}

func TestDisconnectCancelsCall(t *testing.T) {
	run := newEndless()
	w := serveWeb(t, HTTPConfig{Return: time.Millisecond}, run.tool())
	for name, e := range map[string]protocol{"2026-07-28": today("endless"), "2025-11-25": older(w.connect())} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				<-run.started
				leave()
			}()
			if res, err := w.try(ctx, e, "endless"); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			<-run.ended
		})
	}
}

func TestClientMayResumeStream(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	slow := Tool{Name: "slow", Schema: json.RawMessage(schema), Handle: func(ctx context.Context, c Call) (redact.Redacted, error) {
		close(started)
		select {
		case <-release:
			return gate.Redact(ctx, "here it is")
		case <-ctx.Done():
			return gate.Redact(context.Background(), "cut short")
		}
	}}
	w := serveWeb(t, HTTPConfig{Return: time.Hour}, slow)
	connection := w.connect()
	ctx, leave := context.WithCancel(t.Context())
	res := w.call(ctx, older(connection), "slow")
	last := w.event(res)
	<-started
	leave()
	close(release)
	again := w.get(t.Context(), last, connection...)
	if got := w.text(again); got != "here it is" {
		t.Errorf("got %q", got)
	}
}

func TestCallIsCancelledUnlessResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttendance(5 * time.Second)
		number := a.arrive("c", nil)
		p := a.find(number)
		a.leave(number, true)
		time.Sleep(4 * time.Second)
		a.read("c", 1)
		time.Sleep(time.Hour)
		if p.ctx.Err() != nil {
			t.Error("cancelled while a client still reads")
		}
		a.read("c", -1)
		time.Sleep(5*time.Second - 1)
		if p.ctx.Err() != nil {
			t.Error("cancelled too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !errors.Is(context.Cause(p.ctx), errGone) || len(a.posts)+len(a.readers) > 0 {
			t.Errorf("cancelled by %v; %d posts and %d readers are left", context.Cause(p.ctx), len(a.posts), len(a.readers))
		}
	})
}

func TestDeleteCancelsCalls(t *testing.T) {
	for name, end := range map[string]func(*web, []string){
		"deleted": func(w *web, connection []string) {
			if res, err := w.send(t.Context(), http.MethodDelete, "", connection...); err == nil {
				res.Body.Close()
			}
		},
		"cancelled": func(w *web, connection []string) {
			w.post(t.Context(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, connection...)
		},
		"stopped": func(w *web, _ []string) {
			over, now := context.WithCancel(t.Context())
			now()
			w.http.Drain(over)
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := newEndless()
			w := serveWeb(t, HTTPConfig{Return: time.Hour}, run.tool())
			connection := w.connect()
			w.call(t.Context(), older(connection), "endless")
			<-run.started
			end(w, connection)
			<-run.ended
		})
	}
}

func TestDrainWaitsForCalls(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	slow := Tool{Name: "slow", Schema: json.RawMessage(schema), Handle: func(ctx context.Context, c Call) (redact.Redacted, error) {
		close(started)
		<-release
		return gate.Redact(ctx, fmt.Sprint(ctx.Err()))
	}}
	w := serveWeb(t, HTTPConfig{}, slow)
	res := w.call(t.Context(), older(w.connect()), "slow")
	<-started
	drained := make(chan error, 1)
	go func() { drained <- w.http.Drain(t.Context()) }()
	close(release)
	if got := w.text(res); got != "<nil>" {
		t.Errorf("the call ended with %q", got)
	}
	<-drained
}

func TestConnectionsOverLimitAreStateless(t *testing.T) {
	w := serveWeb(t, HTTPConfig{MaxConnections: 2}, whoami)
	for range 2 {
		w.connect()
	}
	res := w.post(t.Context(), hello)
	if id := res.Header.Get("Mcp-Session-Id"); res.StatusCode != http.StatusOK || id != "" {
		t.Errorf("the third: %s, connection %q", res.Status, id)
	}
	if got := w.text(w.call(t.Context(), older([]string{"Mcp-Protocol-Version", "2025-11-25"}), "whoami")); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestInvalidRequestsAreRejected(t *testing.T) {
	w := serveWeb(t, HTTPConfig{MaxBody: 1 << 10}, whoami)
	for name, c := range map[string]struct {
		body   string
		header []string
		want   int
	}{
		"malformed":        {"{", today("whoami").header, http.StatusBadRequest},
		"malformed, older": {"{", nil, http.StatusBadRequest},
		"too long": {strings.Repeat(" ", 2<<10) + today("whoami").callOf("whoami"), today("whoami").header,
			http.StatusRequestEntityTooLarge},
		"no such connection": {protocol{}.callOf("whoami"), []string{"Mcp-Session-Id", "nobody", "Mcp-Protocol-Version", "2025-11-25"},
			http.StatusNotFound},
		"an obsolete version": {protocol{}.callOf("whoami"), []string{"Mcp-Protocol-Version", "1999-01-01"}, http.StatusBadRequest},
		"a future version":    {protocol{}.callOf("whoami"), []string{"Mcp-Protocol-Version", "2099-01-01"}, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			res := w.post(t.Context(), c.body, c.header...)
			if body, _ := io.ReadAll(res.Body); res.StatusCode != c.want {
				t.Errorf("%s %s, want %d", res.Status, body, c.want)
			}
		})
	}
}
