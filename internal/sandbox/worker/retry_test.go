//go:build linux

package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// busyHost fails the first calls of each item, and records steps.
type busyHost struct {
	*stepHost
	failures map[string]*tool.Failure

	calls sync.Map // item -> *int
}

func (h *busyHost) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	if method != "call_tool" {
		return h.stepHost.Call(ctx, method, args)
	}
	var c struct{ Args struct{ Item string } }
	if err := json.Unmarshal(args, &c); err != nil {
		return nil, err
	}
	v, _ := h.calls.LoadOrStore(c.Args.Item, new(int))
	n := v.(*int)
	*n++
	if f := h.failures[c.Args.Item]; f != nil && *n < 3 {
		failed := *f
		failed.Ref = tool.Ref{Server: "shop", Tool: "order"}
		return nil, &failed
	}
	return fmt.Appendf(nil, `{"value":%d}`, *n), nil
}

// TestRetry calls tools whose first two calls fail.
func TestRetry(t *testing.T) {
	const soon = time.Millisecond
	busy := map[string]*tool.Failure{
		"retryable":   {Message: "sold out", Retryable: true, Later: soon},
		"status":      {Message: "answered 429", Status: 429, Later: soon},
		"text":        {Message: "Error: rate limited; retry after 0.001 seconds"},
		"again":       {Message: "busy, please try again in 1ms"},
		"number":      {Message: "HTTP 503 (retry in 1 ms)"},
		"data":        {Message: "sold out", Data: json.RawMessage(`{"retryAfterMs":1}`)},
		"data status": {Message: "sold out, retry after 0.001 s", Data: json.RawMessage(`{"status":503}`)},
		"not sent":    {Message: "the server is starting", NotMade: true, Retryable: true, Later: soon},

		"unknown":   {Message: "answered 503: retry after 0.001 s", Unknown: true, Status: 503, Retryable: true, Later: soon},
		"wrong":     {Message: "sold out"},
		"amount":    {Message: "order 5031 costs $429.00"},
		"will not":  {Message: "429", Data: json.RawMessage(`{"retryable":false}`)},
		"next hour": {Message: "429: retry after 3600 seconds"},
	}
	for code, want := range map[string]string{
		"retry(lambda: order('%s'))":                            "3",
		"retry(lambda: order('%s'), attempts=2)":                "",
		"await retry(lambda: aio('%s'))":                        "3",
		"async def f(): return await aio('%s')\nawait retry(f)": "3",
		"def f():\n    try: order('%s')\n    except ToolError as e: raise ValueError('no order') from e\n    return 7\nretry(f)": "7",
		"parallel(lambda: retry(lambda: order('%s')), errors='return')[0]":                                                       "3",
	} {
		w := open(t, worker.Limits{})
		for item, failure := range busy {
			h := &busyHost{stepHost: newStepHost(), failures: busy}
			code := "async def aio(i): return call_tool('shop', 'order', item=i)\ndef order(i): return call_tool('shop', 'order', " +
				"item=i)\n" + fmt.Sprintf(code, item)
			o := w.program(t, sandbox.Program{Code: code, Seed: seed(1)}, h)
			passes := strings.Contains("retryable status text again number data data status not sent", item)
			switch {
			case passes && want != "":
				if string(o.Result) != want {
					t.Errorf("%s\n gave %s (%s), want %s", code, o.Result, o.Error+o.Traceback, want)
				}
			case strings.HasPrefix(code, "parallel"):
			default:
				if !passes {
					if n, _ := h.calls.Load(item); *n.(*int) != 1 {
						t.Errorf("%s\n called it %d times", code, *n.(*int))
					}
				}
				if got := o.Error + string(o.Result); !strings.Contains(got, failure.Message) && !strings.Contains(got, "no order") {
					t.Errorf("%s\n gave %s (%s)", code, o.Result, o.Error)
				}
			}
		}
	}
}

func TestRetryRejectsWrongArguments(t *testing.T) {
	for code, want := range map[string]string{
		"retry(5)": "TypeError: retry(fn, attempts=3): fn must be a function, got int: write " +
			"retry(lambda: f(x))",
		"retry(lambda: 1, 0)":             "ValueError: retry(fn, attempts=3): attempts must be a number from 1 to 20, got 0",
		"retry(lambda: 1, attempts=True)": "ValueError: retry(fn, attempts=3)",
		"retry(lambda: 1 / 0)":            "ZeroDivisionError",
		"parallel(lambda: 1, errors='ignore')": `ValueError: parallel(*functions, errors="raise"): errors is "raise" or ` +
			`"return", got 'ignore'`,
		"retry(lambda: [].index('please, try again'))": "ValueError",
	} {
		o := open(t, worker.Limits{}).program(t, sandbox.Program{Code: code, Seed: seed(1)}, newStepHost())
		if got := o.ErrorType + ": " + o.Error; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
}

func TestParallelReturnsErrors(t *testing.T) {
	for code, want := range map[string]string{
		"a, b, c = parallel(lambda: order('a'), lambda: order('nothing'), lambda: 1 / 0, errors='return')\n[a['args'], type(b).__name__, " +
			"b.tool, str(b), type(c).__name__]": `[{"item":"a"},"ToolError","order","sold out","ZeroDivisionError"]`,
		"[str(e) for e in parallel(lambda: order('nothing'), errors='return')]": `["sold out"]`,
		"parallel(errors='return')": "[]",
		"def leave(): raise SystemExit(3)\ntry: parallel(leave, lambda: 1, errors='return')\nexcept SystemExit as e: result = e.code": "3",
		"with ToolError.watch() as unknown: parallel(lambda: order('lost'), lambda: 1, errors='return')\nlen(unknown)":                "1",
	} {
		w, h := openShop(t)
		if o := w.checked(t, "from servers.shop import order\n"+code, h); string(o.Result) != want {
			t.Errorf("%s\n gave %s (%s)\n want %s", code, o.Result, o.Error+o.Traceback, want)
		}
	}
}
