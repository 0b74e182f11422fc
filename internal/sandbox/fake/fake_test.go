package fake_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

// host records the output and calls of a script.
type host struct {
	mu     sync.Mutex
	output []string
	calls  []string
	most   int // items of output before it returns an error; 0 means unlimited
}

func (h *host) Output(p []byte) error {
	if h.most > 0 && len(h.output) == h.most {
		return errors.New("enough")
	}
	h.output = append(h.output, string(p))
	return nil
}

func (h *host) Call(_ context.Context, method string, args []byte) ([]byte, error) {
	h.mu.Lock()
	h.calls = append(h.calls, method+" "+string(args))
	h.mu.Unlock()
	if method == "missing" {
		return nil, fault.New(fault.NotFound, "no such thing")
	}
	return []byte(`"answer"`), nil
}

var spec = sandbox.Spec{Owner: "a", Mounts: []sandbox.Mount{{Target: "/workspace", Root: "w", Name: "a"}}}

func open(t *testing.T, b *fake.Backend) sandbox.Sandbox {
	t.Helper()
	s, err := b.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestScripts(t *testing.T) {
	completed := func(result string) sandbox.Outcome {
		return sandbox.Outcome{Status: sandbox.Completed, Result: json.RawMessage(result)}
	}
	raised := func(kind, msg string) sandbox.Outcome {
		return sandbox.Outcome{Status: sandbox.Raised, ErrorType: kind, Error: msg,
			Traceback: "Traceback (most recent call last):\n" + kind + ": " + msg}
	}
	for _, tc := range []struct {
		name, code string
		want       sandbox.Outcome
		output     []string
		calls      []string
	}{
		{"prints and a result", "print a b\n\n# not this\nflood 2 c\nresult [1, 2]", completed("[1, 2]"), []string{"a b", "c", "c"}, nil},
		{"nothing", "", sandbox.Outcome{Status: sandbox.Completed}, nil, nil},
		{"variables", `get given`, completed(`7`), nil, nil},
		{"a long string", `string 3`, completed(`"xxx"`), nil, nil},
		{"a call", `call load_skill {"name": "x"}`, completed(`"answer"`), nil, []string{`load_skill {"name": "x"}`}},
		{"a call that fails", `call missing {}`, raised("FileNotFoundError", "no such thing"), nil, []string{"missing {}"}},
		{"an exception", "stderr oh\nraise ValueError not like this", func() sandbox.Outcome {
			o := raised("ValueError", "not like this")
			o.Stderr = "oh\n"
			return o
		}(), nil, nil},
		{"no directive", "import os", raised("SyntaxError", "invalid syntax in line 1: import os"), nil, nil},
		{"an unknown name", "get x", raised("NameError", "name 'x' is not defined"), nil, nil},
		{"a limit", "exceed memory", sandbox.Outcome{Status: sandbox.OverLimit, Limit: "memory", Error: "memory limit reached",
			ErrorType: "over_limit"}, nil, nil},
		{"a crash", "print last words\ncrash", sandbox.Outcome{Status: sandbox.Crashed, Error: "the interpreter died",
			ErrorType: "crashed"}, []string{"last words"}, nil},
		{"a picture", "image image/png AQI=", sandbox.Outcome{Status: sandbox.Completed,
			Images: []sandbox.Image{{MIME: "image/png", Data: []byte{1, 2}}}}, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h host
			got, err := open(t, fake.New(fake.Config{})).Run(t.Context(),
				sandbox.Program{Code: tc.code, Vars: json.RawMessage(`{"given": 7}`)}, &h)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(sandbox.Outcome{}, "Usage")); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tc.output, h.output); d != "" {
				t.Error("output", d)
			}
			if d := cmp.Diff(tc.calls, h.calls); d != "" {
				t.Error("calls", d)
			}
		})
	}
}

func TestRunEndsWithStatusOfContextCause(t *testing.T) {
	for cause, want := range map[error]sandbox.Status{
		sandbox.ErrTimeout:     sandbox.TimedOut,
		errors.New("left"):     sandbox.Cancelled,
		context.Canceled:       sandbox.Cancelled,
		errors.New("shutdown"): sandbox.Cancelled,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, fake.New(fake.Config{}))
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			var h host
			got, err := s.Run(ctx, sandbox.Program{Code: "print a\nsleep 1h\nprint b"}, &h)
			if err != nil || got.Status != want || got.Usage.Wall != time.Second || len(h.output) != 1 {
				t.Errorf("%v: %+v %v, output %q", cause, got, err, h.output)
			}
			again, err := s.Run(t.Context(), sandbox.Program{Code: "result 1"}, &h)
			if err != nil || again.Status != sandbox.Crashed {
				t.Errorf("dead sandbox returned %+v, %v", again, err)
			}
		})
	}
}

func TestVariablesPersistInOneSandbox(t *testing.T) {
	b := fake.New(fake.Config{})
	one, two := open(t, b), open(t, b)
	run := func(s sandbox.Sandbox, code string) string {
		out, err := s.Run(t.Context(), sandbox.Program{Code: code}, &host{})
		if err != nil {
			t.Fatal(err)
		}
		return string(out.Result) + out.ErrorType
	}
	run(one, "set x 1")
	if got := run(one, "get x"); got != "1" {
		t.Errorf("the same sandbox: %s", got)
	}
	if got := run(two, "get x"); got != "NameError" {
		t.Errorf("another sandbox: %s", got)
	}
}

func TestCloseEndsRun(t *testing.T) {
	for _, closed := range []string{"sandbox", "backend"} {
		synctest.Test(t, func(t *testing.T) {
			b := fake.New(fake.Config{})
			s := open(t, b)
			time.AfterFunc(time.Second, func() {
				if closed == "backend" {
					_ = b.Close()
				}
				_ = s.Close()
				_ = s.Close()
			})
			got, err := s.Run(t.Context(), sandbox.Program{Code: "sleep 1h"}, &host{})
			if err != nil || got.Status != sandbox.Cancelled {
				t.Errorf("%s: %+v %v", closed, got, err)
			}
			synctest.Wait()
			if open, total := b.Count(); open != 0 || total != 1 {
				t.Errorf("%s: %d open of %d", closed, open, total)
			}
		})
	}
}

func TestOutputErrorEndsRun(t *testing.T) {
	h := host{most: 3}
	got, err := open(t, fake.New(fake.Config{})).Run(t.Context(), sandbox.Program{Code: "flood 1000000000 x"}, &h)
	if err != nil || got.Status != sandbox.Cancelled || len(h.output) != 3 {
		t.Errorf("%+v %v after %d items", got, err, len(h.output))
	}
}

func TestOpenRejects(t *testing.T) {
	closed := fake.New(fake.Config{})
	_ = closed.Close()
	for name, open := range map[string]func() (sandbox.Sandbox, error){
		"no owner": func() (sandbox.Sandbox, error) {
			return fake.New(fake.Config{}).Open(t.Context(), sandbox.Spec{Mounts: spec.Mounts})
		},
		"no workspace": func() (sandbox.Sandbox, error) {
			return fake.New(fake.Config{}).Open(t.Context(), sandbox.Spec{Owner: "a"})
		},
		"closed": func() (sandbox.Sandbox, error) { return closed.Open(t.Context(), spec) },
		"broken": func() (sandbox.Sandbox, error) {
			return fake.New(fake.Config{OpenError: errors.New("no namespaces")}).Open(t.Context(), spec)
		},
	} {
		if s, err := open(); err == nil {
			t.Errorf("%s: opened %v", name, s)
		}
	}
}

func TestConfiguredScriptReplacesCode(t *testing.T) {
	b := fake.New(fake.Config{Scripts: map[string]string{"compile(source)": "get source"}})
	out, err := open(t, b).Run(t.Context(), sandbox.Program{Code: "compile(source)", Vars: json.RawMessage(`{"source": "1"}`)}, &host{})
	if err != nil || string(out.Result) != `"1"` {
		t.Errorf("%+v %v", out, err)
	}
}

func TestSpawnedCallsAreAwaited(t *testing.T) {
	var h host
	code := strings.Repeat("spawn save {}\n", 20)
	if _, err := open(t, fake.New(fake.Config{})).Run(t.Context(), sandbox.Program{Code: code}, &h); err != nil || len(h.calls) != 20 {
		t.Errorf("%d calls, %v", len(h.calls), err)
	}
}
