package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// site is a server over HTTP without an SDK, with the session-based protocol.
type site struct {
	*httptest.Server
	t        testing.TB
	answer   func(w http.ResponseWriter, r *http.Request, m request) bool // handles a message and returns true, or returns false
	sessions atomic.Int64
}

func serve(t testing.TB, answer func(http.ResponseWriter, *http.Request, request) bool) *site {
	s := &site{t: t, answer: answer}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m request
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &m)
	if s.answer != nil && s.answer(w, r, m) {
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if session := r.Header.Get("Mcp-Session-Id"); session != "" && session != fmt.Sprint(s.sessions.Load()) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch m.Method {
	case "server/discover":
		w.WriteHeader(http.StatusBadRequest)
	case "initialize":
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(s.sessions.Add(1)))
		reply(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"site","version":"1"}}`)
	case "tools/list":
		reply(w, m, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		x, _ := m.Params.Arguments["x"].(string)
		reply(w, m, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, x))
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func reply(w http.ResponseWriter, m request, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		fmt.Fprint(w, e)
		_ = http.NewResponseController(w).Flush()
	}
}

func at(t testing.TB, s *site, more ...upstream.Server) *upstream.Set {
	return open(t, upstream.Config{MaxResponse: 1 << 20, RetryDelay: time.Millisecond, Servers: append(more,
		upstream.Server{Name: "site", Kind: upstream.Remote{URL: s.URL + "/mcp",
			Headers: map[string]string{"Authorization": "Bearer sesame-open", "X-Team": "birds"}}, Timeout: 5 * time.Second})})
}

func TestHeadersAreSentWithEveryRequest(t *testing.T) {
	var without atomic.Int64
	s := at(t, serve(t, func(_ http.ResponseWriter, r *http.Request, _ request) bool {
		if r.Header.Get("Authorization") != "Bearer sesame-open" || r.Header.Get("X-Team") != "birds" {
			without.Add(1)
		}
		return false
	}))
	wantEcho(t, s, "site")
	if l, err := s.List(t.Context(), "site"); err != nil || len(l.Tools) != 1 || l.Info.Name != "site" {
		t.Error(l, err)
	}
	s.Close()
	if n := without.Load(); n > 0 {
		t.Errorf("%d requests without the header", n)
	}
}

func TestHTTPErrors(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	status := func(code int, kind, body string) func(http.ResponseWriter, request) {
		return func(w http.ResponseWriter, _ request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, request)
		kind   fault.Kind
		says   string
	}{
		"unauthorized": {status(401, "", ""), fault.Denied, `server "site" answered 401 Unauthorized while calling echo / check the ` +
			`credentials`},
		"forbidden": {status(403, "text/plain", "sesame-open is\x1b[31m blocked"), fault.Denied,
			`answered 403 Forbidden: [secret] is blocked`},
		"broken": {status(500, "application/json", `{"detail":"oops"}`), fault.Unavailable,
			`answered 500 Internal Server Error: {"detail":"oops"}`},
		"overloaded": {status(503, "text/html", "<html>"), fault.Unavailable, `answered 503 Service Unavailable while`},
		"a page": {status(200, "text/html", "<html>log in</html>"), fault.Unavailable,
			`answered with "text/html" instead of a message`},
		"no JSON": {status(200, "application/json", `{"jsonrpc`), fault.Unavailable, `sent a malformed response`},
		"nothing": {status(200, "application/json", ``), fault.Unavailable, `sent a malformed response`},
		"a lie": {status(200, "application/json", `{"jsonrpc":"2.0","id":77777,"result":{}}`), fault.Unavailable,
			`sent a malformed response`},
		"too much": {status(200, "application/json", strings.Repeat(" ", 2<<20)), fault.Exhausted,
			`sent a response of more than 1048576 bytes`},
		"too much, streamed": {func(w http.ResponseWriter, m request) {
			stream(w, "id: 1\n", "data: "+strings.Repeat("x", 2<<20), "\n\n")
		}, fault.Exhausted, `sent a response of more than 1048576 bytes`},
		"an end too soon": {func(w http.ResponseWriter, m request) { stream(w, ": hello\n\n") }, fault.Unavailable,
			`request terminated without response`},
		"an answer and junk": {func(w http.ResponseWriter, m request) {
			stream(w, "junk without a colon\n\nevent: other\ndata: 1\n\ndata: no json\n\n"+
				fmt.Sprintf("event: message\r\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":%s,\"result\":{\"content\":[]}}\r\n\r\n", m.ID))
		}, -1, ``},
		"silence": {func(http.ResponseWriter, request) { <-t.Context().Done() }, fault.Exhausted, `did not respond within 5s`},
		"a refusal": {status(400, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no such thing"}}`),
			fault.NotFound, `does not support the request while calling echo: no such thing`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ends, over := context.WithCancel(context.Background())
			defer over()
			s := at(t, serve(t, func(w http.ResponseWriter, r *http.Request, m request) bool {
				if m.Method != "tools/call" || m.Params.Arguments["x"] != "y" {
					return false
				}
				switch name {
				case "silence":
					select {
					case <-ends.Done():
					case <-r.Context().Done():
					}
				case "a refusal":
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(400)
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such thing"}}`, m.ID)
				default:
					c.answer(w, m)
				}
				return true
			}))
			wantEcho(t, s, "site")
			_, err := call(t.Context(), s, "site", "echo", "y")
			if c.kind < 0 {
				if err != nil {
					t.Error(err)
				}
			} else {
				wantError(t, err, c.kind, c.says)
			}
			until(t, "it to work again", func() bool { _, err := call(t.Context(), s, "site", "echo", "x"); return err == nil })
		})
	}
}

func TestCredentialsAreNotSentToAnotherHost(t *testing.T) {
	var leaks atomic.Int64
	other := serve(t, func(w http.ResponseWriter, r *http.Request, _ request) bool { leaks.Add(1); return false })
	for name, redirect := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"at once": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, other.URL+"/mcp", http.StatusTemporaryRedirect)
			return true
		},
		"in the old transport": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				stream(w, "event: endpoint\ndata: "+other.URL+"/messages\n\n")
				<-r.Context().Done()
				return true
			}
			w.WriteHeader(http.StatusMethodNotAllowed)
			return true
		},
	} {
		s := at(t, serve(t, func(w http.ResponseWriter, r *http.Request, _ request) bool { return redirect(w, r) }))
		_, err := call(t.Context(), s, "site", "echo", "x")
		if fault.KindOf(err) != fault.Denied && name == "at once" || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := leaks.Load(); n > 0 {
		t.Errorf("%d requests reached the other host", n)
	}
	moved := at(t, serve(t, func(w http.ResponseWriter, r *http.Request, _ request) bool {
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, "/new/mcp", http.StatusPermanentRedirect)
			return true
		}
		return false
	}))
	wantEcho(t, moved, "site")
}

func TestExpiredSessionIsReconnected(t *testing.T) {
	web := serve(t, nil)
	s := at(t, web)
	wantEcho(t, s, "site")
	web.sessions.Add(1) // simulates a restart
	wantEcho(t, s, "site")
	if n := web.sessions.Load(); n != 3 {
		t.Errorf("%d sessions", n)
	}
}

func TestMissingStreamDoesNotBlockCalls(t *testing.T) {
	t.Parallel()
	for name, get := range map[string]func(http.ResponseWriter, *http.Request){
		"late":   func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"broken": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"short":  func(w http.ResponseWriter, r *http.Request) { stream(w, ": hello\n\n") },
	} {
		s := at(t, serve(t, func(w http.ResponseWriter, r *http.Request, _ request) bool {
			if r.Method == http.MethodGet {
				get(w, r)
			}
			return r.Method == http.MethodGet
		}))
		for range 3 {
			wantEcho(t, s, "site")
		}
		if st := state(s, "site"); st.State != upstream.Ready {
			t.Errorf("%s: %+v", name, st)
		}
		s.Close()
	}
}

// A server cannot send requests before the stream exists.
func TestCallsWaitForStream(t *testing.T) {
	var begun, early atomic.Bool
	s := at(t, serve(t, func(w http.ResponseWriter, r *http.Request, m request) bool {
		switch {
		case r.Method == http.MethodGet:
			time.Sleep(200 * time.Millisecond)
			begun.Store(true)
			stream(w, ": here\n\n")
			<-r.Context().Done()
			return true
		case m.Method == "tools/call":
			early.Store(!begun.Load())
		}
		return false
	}))
	wantEcho(t, s, "site")
	if early.Load() {
		t.Error("the call was sent before the stream")
	}
}

func TestStreamDeliversListChanges(t *testing.T) {
	changed := make(chan string, 1)
	web := serve(t, func(w http.ResponseWriter, r *http.Request, _ request) bool {
		if r.Method == http.MethodGet {
			stream(w, "id: 7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
			<-r.Context().Done()
		}
		return r.Method == http.MethodGet
	})
	s := open(t, upstream.Config{Servers: []upstream.Server{{Name: "site", Kind: upstream.Remote{URL: web.URL}}},
		ToolsChanged: func(_ context.Context, server string) { changed <- server }})
	if _, err := s.List(t.Context(), "site"); err != nil {
		t.Fatal(err)
	}
	wantEcho(t, s, "site")
	if got := <-changed; got != "site" {
		t.Error(got)
	}
}

// events is a server with the HTTP+SSE transport of 2024-11-05: an event stream and a POST endpoint.
func events(t testing.TB) *site {
	out := make(chan string, 10)
	return serve(t, func(w http.ResponseWriter, r *http.Request, m request) bool {
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/mcp":
			stream(w, "event: endpoint\ndata: /messages?id=1\n\n")
			for {
				select {
				case e := <-out:
					stream(w, "event: message\ndata: "+e+"\n\n")
				case <-r.Context().Done():
					return true
				}
			}
		case r.Method == http.MethodPost && r.URL.Path == "/messages":
			rec := httptest.NewRecorder()
			x, _ := m.Params.Arguments["x"].(string)
			switch {
			case m.Method == "initialize":
				reply(rec, m, `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`)
			case x == "much":
				reply(rec, m, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 2<<20)+`"}]}`)
			case m.Method == "tools/call":
				reply(rec, m, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, x))
			}
			w.WriteHeader(http.StatusAccepted)
			if rec.Body.Len() > 0 {
				out <- rec.Body.String()
			}
			return true
		}
		w.WriteHeader(http.StatusMethodNotAllowed)
		return true
	})
}

func TestHTTPWithSSETransport(t *testing.T) {
	web := events(t)
	s := at(t, web)
	wantEcho(t, s, "site")
	if st := state(s, "site"); st.Info.Protocol != "2024-11-05" {
		t.Errorf("%+v", st)
	}
	_, err := call(t.Context(), s, "site", "echo", "much")
	wantError(t, err, fault.Exhausted, "sent a response of more than 1048576 bytes")
	wantEcho(t, s, "site")
	named := open(t, upstream.Config{Servers: []upstream.Server{{Name: "site",
		Kind: upstream.Remote{URL: events(t).URL + "/mcp", Transport: "sse"}}, {Name: "strict", Kind: upstream.Remote{URL: web.URL + "/mcp",
		Transport: "http"}}}})
	wantEcho(t, named, "site")
	_, err = call(t.Context(), named, "strict", "echo", "x")
	wantError(t, err, fault.Unavailable, `server "strict" answered 405 Method Not Allowed`)
}

func TestCancellationOverHTTP(t *testing.T) {
	var cancelled sync.WaitGroup
	cancelled.Add(1)
	s := at(t, serve(t, func(w http.ResponseWriter, r *http.Request, m request) bool {
		switch {
		case m.Method == "notifications/cancelled":
			cancelled.Done()
		case m.Method == "tools/call":
			<-r.Context().Done()
			return true
		}
		return false
	}))
	if _, err := s.List(t.Context(), "site"); err != nil { // connects
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // less than the server's own
	defer cancel()
	_, err := s.Call(ctx, tool.Call{Ref: tool.Ref{Server: "site", Tool: "echo"}})
	wantError(t, err, fault.Exhausted, "was cancelled while calling echo: the deadline has passed")
	cancelled.Wait()
}
