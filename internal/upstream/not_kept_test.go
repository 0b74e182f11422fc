package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/network"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// A call that was answered, and whose answer cannot be kept, has been made. If the answer was an error
// of HTTP, its status decides.
func TestAnswersThatCannotBeKept(t *testing.T) {
	body := func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(strings.TrimPrefix(r.URL.RawQuery, "x="))
		w.WriteHeader(max(status, 200))
		fmt.Fprint(w, strings.Repeat("x", 200<<10))
	}
	web := httptest.NewServer(http.HandlerFunc(body))
	t.Cleanup(web.Close)
	at, _ := url.Parse(web.URL)
	port, _ := strconv.Atoi(at.Port())
	rules, err := network.NewRules([]network.Rule{{Host: "127.0.0.1", Scheme: "http", Port: port, Methods: []string{"*"},
		Addresses: []string{"127.0.0.0/8"}}})
	if err != nil {
		t.Fatal(err)
	}
	set := newAPISet(t, upstream.Config{MaxResponse: 1 << 20, Servers: []upstream.Server{
		brokenServer(t, "good"), {Name: "remote", Kind: upstream.Remote{URL: serve(t, nil).URL}}, {Name: "events",
			Kind: upstream.Remote{URL: events(t).URL + "/mcp"}}, {Name: "network", Kind: rules},
	}}, upstream.Server{}, body)
	full := func(context.Context, int64) error { return fault.New(fault.Exhausted, "the memory is used up") }
	for _, c := range []struct {
		server, tool, args string
		hold               bool
		want               string // outcome
	}{
		{"good", "echo", `{"x":"hello"}`, true, tool.Made},
		{"good", "huge", `{}`, false, tool.Made},
		{"remote", "echo", `{"x":"hello"}`, true, tool.Made},
		{"events", "echo", `{"x":"much"}`, false, tool.Made},
		{"events", "echo", `{"x":"hello"}`, true, tool.Made},
		{"pets", "post", `{}`, true, tool.Made},
		{"network", "post", `{"url":"` + web.URL + `/?x=200"}`, true, tool.Made},
		{"network", "post", `{"url":"` + web.URL + `/?x=404"}`, true, tool.Failed},
		{"network", "post", `{"url":"` + web.URL + `/?x=502"}`, true, tool.Unknown},
		{"network", "put", `{"url":"` + web.URL + `/?x=502"}`, true, tool.Failed},
	} {
		call := tool.Call{Ref: tool.Ref{Server: c.server, Tool: c.tool}, Args: json.RawMessage(c.args)}
		if c.hold {
			call.Hold = full
		}
		_, err := set.Call(t.Context(), call)
		got := fmt.Sprintf("%T", err)
		if _, kept := errors.AsType[*tool.NotKept](err); kept {
			got = tool.Made
		} else if f, ok := errors.AsType[*tool.Failure](err); ok {
			got = f.Outcome()
		}
		if got != c.want || !strings.Contains(err.Error(), map[bool]string{true: "the memory is used up",
			false: "more than 1048576 bytes"}[c.hold]) {
			t.Errorf("%s.%s %s: %s, %v; want %s", c.server, c.tool, c.args, got, err, c.want)
		}
	}
	for status, want := range map[string]string{"404": tool.Failed, "502": tool.Unknown} {
		s := newAPISet(t, upstream.Config{}, upstream.Server{}, func(w http.ResponseWriter, r *http.Request) {
			r.URL.RawQuery = "x=" + status
			body(w, r)
		})
		_, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: "pets", Tool: "post"}, Hold: full})
		if f, ok := errors.AsType[*tool.Failure](err); !ok || f.Outcome() != want || !strings.Contains(f.Message, status) {
			t.Errorf("%s: %v", status, err)
		}
	}
}
