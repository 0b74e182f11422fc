package execution_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

func TestInvalidRequestsReturnError(t *testing.T) {
	home := newHome(t, "a")
	s := defaultSetup(t)
	vars := func(v string) execution.Request {
		return execution.Request{Code: "result 1", Vars: json.RawMessage(v)}
	}
	for _, tc := range []struct {
		name string
		req  execution.Request
		want string
	}{
		{"no code", execution.Request{}, "code is empty; pass the Python to run"},
		{"blank code", execution.Request{Code: " \n\t"}, "code is empty; pass the Python to run"},
		{"too much code", execution.Request{Code: strings.Repeat("#", 1<<20+1)}, "code has 1048577 bytes; at most 1048576 are allowed"},
		{"NUL", execution.Request{Code: "a\x00"}, "code has a NUL character at byte 1; Python source must not contain one"},
		{"no UTF-8", execution.Request{Code: "\xff"}, "code is not valid UTF-8"},
		{"negative timeout", execution.Request{Code: "x", Timeout: -5 * time.Second},
			"timeout_seconds is -5; it must be more than 0 and at most 300"},
		{"long timeout", execution.Request{Code: "x", Timeout: 300500 * time.Millisecond},
			"timeout_seconds is 300.5; it must be more than 0 and at most 300"},
		{"endless timeout", execution.Request{Code: "x", Timeout: execution.Seconds(math.Inf(1))},
			"timeout_seconds is 9223372036.855; it must be more than 0 and at most 300"},
		{"negative memory", execution.Request{Code: "x", MemoryMB: -1}, "memory_mb is -1; it must be between 64 and 2048"},
		{"little memory", execution.Request{Code: "x", MemoryMB: 63}, "memory_mb is 63; it must be between 64 and 2048"},
		{"much memory", execution.Request{Code: "x", MemoryMB: 4096}, "memory_mb is 4096; it must be between 64 and 2048"},
		{"a list", vars(`[1, 2]`), "context_vars is [1, 2]; it must be a JSON object of variable names and values"},
		{"a string", vars(`"` + strings.Repeat("x", 50) + `"`),
			`context_vars is "` + strings.Repeat("x", 39) + "…; it must be a JSON object of variable names and values"},
		{"broken JSON", vars(`{"a": `), `context_vars is {"a":; it must be a JSON object of variable names and values`},
		{"too large", vars(`{"a": "` + strings.Repeat("x", 16<<20) + `"}`),
			"context_vars has 16777225 bytes; at most 16777216 are allowed"},
		{"a keyword", vars(`{"class": 1}`), `context_vars has the key "class", a Python keyword; use another name`},
		{"a dash", vars(`{"a-b": 1}`), `context_vars has the key "a-b"; a variable name is letters, digits and underscores and does not ` +
			`begin with a digit`},
		{"a digit first", vars(`{"1a": 1}`), `context_vars has the key "1a"; a variable name is letters, digits and underscores and does ` +
			`not begin with a digit`},
		{"an empty name", vars(`{"": 1}`), `context_vars has the key ""; a variable name is letters, digits and underscores and does not ` +
			`begin with a digit`},
		{"Python's own", vars(`{"__builtins__": {}}`), `context_vars has the key "__builtins__"; names that begin with two underscores ` +
			`are Python's own`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x, err := s.Start(t.Context(), home, tc.req)
			if err == nil {
				t.Fatalf("started %s", x.ID())
			}
			if fault.KindOf(err) != fault.Invalid || fault.Message(err) != tc.want {
				t.Errorf("%v: %s\nwant %s", fault.KindOf(err), fault.Message(err), tc.want)
			}
		})
	}
}

func TestValidRequests(t *testing.T) {
	home := newHome(t, "a")
	s := defaultSetup(t)
	for _, req := range []execution.Request{
		{Code: "result 1", Vars: json.RawMessage(" null ")},
		{Code: "result 1", Vars: json.RawMessage(`{}`)},
		{Code: "result 1", Vars: json.RawMessage(`{"größe": 1, "_x2": 2, "match": 3, "json": 4}`)},
		{Code: "result 1", Timeout: time.Millisecond, MemoryMB: 64},
		{Code: "result 1", Timeout: 300 * time.Second, MemoryMB: 2048},
		{Code: "#" + strings.Repeat(" ", 1<<20-1)},
	} {
		if r := done(t, s.start(t, t.Context(), home, req)); !r.Success() && r.ErrorType != "timeout" {
			t.Errorf("%.60s %s: %+v", req.Code, req.Vars, r)
		}
	}
}

func TestExplicitZeroLimitIsRejected(t *testing.T) {
	var l execution.Limits
	for _, err := range []error{l.CheckTimeout(0), l.CheckTimeout(execution.Seconds(math.NaN())), l.CheckMemory(0)} {
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%v", err)
		}
	}
	if err := l.CheckTimeout(execution.Seconds(0.5)); err != nil {
		t.Error(err)
	}
}
