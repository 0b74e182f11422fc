package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// wantNotSent checks whether the error of a call shows that nothing was sent.
func wantNotSent(t *testing.T, what string, err error, want bool) {
	t.Helper()
	if err == nil || tool.IsNotSent(err) != want {
		t.Errorf("%s: not sent is %v, want %v: %v", what, !want, want, err)
	}
}

func TestCallsOfServersThatDoNotStartAreNotSent(t *testing.T) {
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "hangs"),
		{Name: "missing", Kind: upstream.Program{Command: "no-such-program"}}, {Name: "refused",
			Kind: upstream.Remote{URL: "http://127.0.0.1:1/mcp"}}}})
	for _, name := range []string{"missing", "missing", "refused", "absent"} {
		_, err := call(t.Context(), s, name, "echo", "")
		wantNotSent(t, name, err, true)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := call(ctx, s, "hangs", "echo", "")
	wantNotSent(t, "cancelled while the server starts", err, true)
}

// The error of a server whose directory is missing names the entry, not the program.
func TestMissingDirectoryOfAServerIsNamed(t *testing.T) {
	server := brokenServer(t, "good")
	program := server.Kind.(upstream.Program)
	program.Dir = filepath.Join(t.TempDir(), "gone")
	server.Kind = program
	_, err := call(t.Context(), open(t, upstream.Config{Servers: []upstream.Server{server}}), "good", "echo", "")
	wantNotSent(t, "cwd", err, true)
	if !strings.Contains(err.Error(), "cwd") || !strings.Contains(fault.Hint(err), "cwd") {
		t.Errorf("%v / %s", err, fault.Hint(err))
	}
}

func TestCallsOfAServerThatIsGoneAreNotSent(t *testing.T) {
	site := serve(t, nil)
	site.Config.SetKeepAlivesEnabled(false)
	s := at(t, site)
	wantEcho(t, s, "site")
	site.Close()
	_, err := call(t.Context(), s, "site", "echo", "")
	wantNotSent(t, "MCP over HTTP", err, true)

	api := httptest.NewServer(http.NotFoundHandler())
	api.Close()
	pets := newAPISet(t, upstream.Config{}, upstream.Server{Kind: &openapi.Source{URL: api.URL}}, nil)
	_, err = call(t.Context(), pets, "pets", "post", "")
	wantNotSent(t, "API", err, true)
}

// A connection that breaks after the request was written leaves its outcome unknown.
func TestCallsWithoutAnAnswerMayHaveBeenSent(t *testing.T) {
	var calls atomic.Int32
	site := serve(t, func(w http.ResponseWriter, _ *http.Request, m request) bool {
		if m.Method != "tools/call" {
			return false
		}
		calls.Add(1)
		panic(http.ErrAbortHandler)
	})
	s := at(t, site, brokenServer(t, "good"))
	_, err := call(t.Context(), s, "site", "echo", "")
	wantNotSent(t, "MCP over HTTP", err, false)
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
	_, err = call(t.Context(), s, "good", "crash", "")
	wantNotSent(t, "a program that exits", err, false)
	pets := newAPISet(t, upstream.Config{}, upstream.Server{}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err = call(t.Context(), pets, "pets", "post", "")
	wantNotSent(t, "API", err, false)
}

// unknownOutcome reports whether an error of a call leaves open whether the call took effect.
func unknownOutcome(err error) bool {
	f, answered := errors.AsType[*tool.Failure](err)
	return err != nil && !tool.IsNotSent(err) && (!answered || f.Unknown)
}

func TestAPIResponsesThatLeaveTheOutcomeOpen(t *testing.T) {
	for name, test := range map[string]struct {
		status  int
		header  string
		body    string
		unknown bool
	}{
		"bad request":          {status: 400},
		"conflict":             {status: 409},
		"too many":             {status: 429},
		"request timeout":      {status: 408, unknown: true},
		"error":                {status: 500, unknown: true},
		"proxy":                {status: 502, unknown: true},
		"overloaded":           {status: 503, unknown: true},
		"moved after a form":   {status: 302, header: "/y", unknown: true},
		"moved elsewhere":      {status: 302, header: "http://127.0.0.1:1/", unknown: true},
		"result is missing":    {status: 303, header: "/missing", unknown: true},
		"result is elsewhere":  {status: 303, header: "http://127.0.0.1:1/", unknown: true},
		"no JSON":              {status: 200, body: "{", unknown: true},
		"more than is allowed": {status: 200, body: `"` + strings.Repeat("x", 2<<20) + `"`, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			var posts atomic.Int32
			s := newAPISet(t, upstream.Config{MaxResponse: 1 << 20}, upstream.Server{}, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				posts.Add(1)
				w.Header().Set("Content-Type", "application/json")
				if test.header != "" {
					w.Header().Set("Location", test.header)
				}
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			})
			_, err := call(t.Context(), s, "pets", "post", "")
			if unknownOutcome(err) != test.unknown || err == nil || posts.Load() != 1 {
				t.Errorf("%#v after %d requests", err, posts.Load())
			}
			if f, ok := errors.AsType[*tool.Failure](err); ok && test.header == "" && f.Status != test.status {
				t.Errorf("status %d", f.Status)
			}
		})
	}
}

// Requests for a token or a document are none of the operation.
func TestAPICallsWithoutATokenAreNotSent(t *testing.T) {
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer tokens.Close()
	var posts atomic.Int32
	auth := openapi.Auth{Client: &openapi.ClientCredentials{TokenURL: tokens.URL, ID: "me", Secret: "sesame-open"}}
	s := newAPISet(t, upstream.Config{}, upstream.Server{Kind: &openapi.Source{Auth: auth}},
		func(http.ResponseWriter, *http.Request) { posts.Add(1) })
	_, err := call(t.Context(), s, "pets", "post", "")
	wantNotSent(t, "without a token", err, true)
	if posts.Load() != 0 {
		t.Errorf("%d requests", posts.Load())
	}
}

// A session that expires while a call is in progress, as the response to another one shows, does not
// make the first call be sent again.
func TestCallsInProgressAreNotRepeatedInANewSession(t *testing.T) {
	var slow atomic.Int32
	began, end := make(chan struct{}, 2), make(chan struct{})
	web := serve(t, func(w http.ResponseWriter, r *http.Request, m request) bool {
		if m.Method != "tools/call" || m.Params.Arguments["x"] != "slow" {
			return false
		}
		slow.Add(1)
		stream(w, "id: 1\ndata:\n\n") // a stream that can be resumed
		began <- struct{}{}
		select {
		case <-end:
		case <-r.Context().Done():
		}
		return true
	})
	s := at(t, web)
	wantEcho(t, s, "site")
	failed := make(chan error, 1)
	go func() {
		_, err := call(t.Context(), s, "site", "echo", "slow")
		failed <- err
	}()
	<-began
	web.sessions.Add(1) // the server forgets its sessions
	wantEcho(t, s, "site")
	close(end)
	if err := <-failed; !unknownOutcome(err) || slow.Load() != 1 {
		t.Errorf("after %d calls: %v", slow.Load(), err)
	}
}

// The stream with the answer breaks, and the server has forgotten the session when the client resumes
// the stream.
func TestCallWhoseStreamCannotBeResumedIsNotRepeated(t *testing.T) {
	var slow atomic.Int32
	s := at(t, serve(t, func(w http.ResponseWriter, r *http.Request, m request) bool {
		switch {
		case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") != "":
			w.WriteHeader(http.StatusNotFound)
			return true
		case m.Method == "tools/call" && m.Params.Arguments["x"] == "slow":
			slow.Add(1)
			stream(w, "id: 1\nretry: 1\ndata:\n\n")
			return true
		}
		return false
	}))
	wantEcho(t, s, "site")
	if _, err := call(t.Context(), s, "site", "echo", "slow"); !unknownOutcome(err) || slow.Load() != 1 {
		t.Errorf("after %d calls: %v", slow.Load(), err)
	}
}

// In the transport of 2024-11-05 a call is accepted with status 202, and its answer is an event of a
// stream, which ends here before it.
func TestCallWhoseEventStreamEndsIsNotRepeated(t *testing.T) {
	var slow atomic.Int32
	out, lost := make(chan string, 10), make(chan struct{})
	web := serve(t, func(w http.ResponseWriter, r *http.Request, m request) bool {
		switch {
		case r.Method == http.MethodGet:
			stream(w, "event: endpoint\ndata: /messages\n\n")
			for {
				select {
				case e := <-out:
					stream(w, "event: message\ndata: "+e+"\n\n")
				case <-lost:
					return true
				case <-r.Context().Done():
					return true
				}
			}
		case m.Method == "initialize":
			out <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}}`, m.ID)
		case m.Method == "tools/call":
			slow.Add(1)
			close(lost)
		}
		w.WriteHeader(http.StatusAccepted)
		return true
	})
	s := open(t, upstream.Config{Servers: []upstream.Server{{Name: "site",
		Kind: upstream.Remote{URL: web.URL + "/mcp", Transport: "sse"}}}})
	if _, err := call(t.Context(), s, "site", "echo", "slow"); !unknownOutcome(err) || slow.Load() != 1 {
		t.Errorf("after %d calls: %v", slow.Load(), err)
	}
}

func TestProtocolErrorsThatLeaveTheOutcomeOpen(t *testing.T) {
	for code, unknown := range map[int]bool{-32700: false, -32600: false, -32601: false, -32602: false, -32603: true, -32000: true,
		-32001: true, 0: true, 17: false, -1: false} {
		s := at(t, serve(t, func(w http.ResponseWriter, _ *http.Request, m request) bool {
			if m.Method != "tools/call" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, m.ID, code)
			return true
		}))
		if _, err := call(t.Context(), s, "site", "echo", "x"); unknownOutcome(err) != unknown {
			t.Errorf("%d: %#v", code, err)
		}
	}
}

// A gateway may describe its own failure as an error of the protocol, in answer to a call that the
// server has executed.
func TestProtocolErrorsWithAStatusThatLeavesTheOutcomeOpen(t *testing.T) {
	for _, status := range []int{408, 499, 500, 502, 503, 504} {
		for _, body := range []string{`{"jsonrpc":"2.0","id":%s,"error":{"code":504,"message":"no"}}`,
			`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"no"}}`,
			`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no %s"}}`,
			`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"isError":true}}`} {
			s := at(t, serve(t, func(w http.ResponseWriter, _ *http.Request, m request) bool {
				if m.Method != "tools/call" || m.Params.Arguments["x"] == "hello" {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
				fmt.Fprintf(w, body, m.ID)
				return true
			}))
			_, err := call(t.Context(), s, "site", "echo", "x")
			f, answered := errors.AsType[*tool.Failure](err)
			if !unknownOutcome(err) || !answered || f.Status != status || f.Later != 7*time.Second {
				t.Errorf("%d with %s: %#v", status, body, err)
			}
			wantEcho(t, s, "site")
		}
	}
}
