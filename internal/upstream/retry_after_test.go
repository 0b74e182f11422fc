package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// A server that is busy gets a repeatable call again when it has asked for it, and no other.
func TestRepeatableCallWaitsForABusyServer(t *testing.T) {
	for _, status := range []int{429, 503} {
		for _, c := range []struct {
			repeatable bool
			after      func() string
			calls      int32
			says       string
		}{
			{true, func() string { return "1" }, 2, ""},
			{true, func() string { return time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat) }, 2, ""},
			{false, func() string { return "1" }, 1, "it asks to wait 1 s"},
			{true, func() string { return "600" }, 1, "it asks to wait 600 s"},
			{true, func() string { return "" }, 1, fmt.Sprint(status)},
		} {
			var calls atomic.Int32
			s := at(t, serve(t, func(w http.ResponseWriter, _ *http.Request, m request) bool {
				if m.Method != "tools/call" || calls.Add(1) > 1 {
					return false
				}
				w.Header().Set("Retry-After", c.after())
				w.WriteHeader(status)
				return true
			}))
			r, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: "site", Tool: "echo"}, Args: json.RawMessage(`{"x":"y"}`),
				Repeatable: c.repeatable})
			if calls.Load() != c.calls || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) ||
				err == nil && r.Text() != "y" {
				t.Errorf("%d, %+v: %q %v after %d calls", status, c, r.Text(), err, calls.Load())
			}
			if f, ok := errors.AsType[*tool.Failure](err); err != nil && (!ok || f.Status != status) {
				t.Errorf("%#v", err)
			}
		}
	}
}

// An API is asked again in the same way.
func TestRepeatableOperationWaitsForABusyAPI(t *testing.T) {
	var gets atomic.Int32
	s := newAPISet(t, upstream.Config{}, upstream.Server{Kind: &openapi.Source{}}, func(w http.ResponseWriter, r *http.Request) {
		if gets.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(503)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{}")
	})
	if _, err := s.Call(context.Background(), tool.Call{Ref: tool.Ref{Server: "pets", Tool: "post"}, Repeatable: true}); err != nil ||
		gets.Load() != 2 {
		t.Errorf("%v after %d requests", err, gets.Load())
	}
}

// The data of a protocol error often has its reason.
func TestProtocolErrorsShowTheirData(t *testing.T) {
	for data, want := range map[string]string{
		`{"field":"owner","token":"sesame-open"}`: `no such owner: {"field":"owner","token":"[secret]"}`,
		`"owner"`:                             "no such owner",
		`null`:                                "no such owner",
		`"` + strings.Repeat("x", 5000) + `"`: "no such owner: \"xxx",
	} {
		s := at(t, serve(t, func(w http.ResponseWriter, _ *http.Request, m request) bool {
			if m.Method != "tools/call" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such owner","data":%s}}`, m.ID, data)
			return true
		}))
		_, err := call(t.Context(), s, "site", "echo", "x")
		f, ok := errors.AsType[*tool.Failure](err)
		if !ok || !strings.HasPrefix(f.Message, want) || len(f.Message) > 600 || len(data) < 100 && f.Message != want {
			t.Errorf("%.60s: %.700v", data, err)
		}
	}
}
