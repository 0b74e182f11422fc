package upstream_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/openapi"
)

// wantNotSent checks whether the error of a call shows that nothing was sent.
func wantNotSent(t *testing.T, what string, err error, want bool) {
	t.Helper()
	if err == nil || tool.IsNotSent(err) != want {
		t.Errorf("%s: not sent is %v, want %v: %v", what, !want, want, err)
	}
}

func TestCallsOfServersThatDoNotStartAreNotSent(t *testing.T) {
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "hangs"), {Name: "missing", Command: "no-such-program"}, {Name: "refused", URL: "http://127.0.0.1:1/mcp"}}})
	for _, name := range []string{"missing", "missing", "refused", "absent"} {
		_, err := call(t.Context(), s, name, "echo", "")
		wantNotSent(t, name, err, true)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := call(ctx, s, "hangs", "echo", "")
	wantNotSent(t, "cancelled while the server starts", err, true)
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
	pets := newAPISet(t, upstream.Config{}, upstream.Server{OpenAPI: &openapi.Source{URL: api.URL}}, nil)
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
