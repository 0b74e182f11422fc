//go:build linux

package worker_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// limitHost lets each time limit expire when the code calls "expire".
type limitHost struct {
	*host
	mu     sync.Mutex
	over   map[int]chan struct{}
	calls  []string
	number int
}

func (h *limitHost) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	var a struct{ Number int }
	_ = json.Unmarshal(args, &a)
	h.mu.Lock()
	h.calls = append(h.calls, method)
	over := h.over[a.Number]
	h.mu.Unlock()
	switch method {
	case "limit":
		h.mu.Lock()
		defer h.mu.Unlock()
		h.number++
		h.over[h.number] = make(chan struct{})
		return json.Marshal(map[string]any{"number": h.number, "recorded": true})
	case "limit_wait":
		if over != nil { // else the function has ended
			<-over
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		return json.Marshal(map[string]bool{"expired": h.over[a.Number] != nil})
	case "limit_end":
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.over, a.Number)
		close(over)
		return []byte(`{"expired":false}`), nil
	case "expire":
		h.mu.Lock()
		defer h.mu.Unlock()
		close(h.over[h.number])
	}
	return []byte("null"), nil
}

func TestTimeLimits(t *testing.T) {
	for code, want := range map[string]string{
		"time_limit(5, lambda a, b=1: [a, b], 7, b=8)":                                                "[7,8]",
		"try:\n    time_limit(5, lambda: 1 / 0)\nexcept ZeroDivisionError as e:\n    result = str(e)": `"division by zero"`,
		`
def endless():
    _call("expire", None)
    while True:
        try:
            while True: pass
        except Exception:
            pass
try:
    time_limit(0.5, endless)
except TimeoutError as e:
    result = str(e)`: `"it took longer than 0.5 s"`,
		`
import time
def sleeps():
    _call("expire", None)
    time.sleep(1e6)
began = time.monotonic()
try:
    time_limit(timedelta(seconds=2), sleeps)
except TimeoutError as e:
    result = time.monotonic() - began < 60`: "true",
		`
def prints():
    _call("expire", None)
    while True: print("x" * 100)
for _ in range(20):
    try:
        time_limit(1, prints)
    except TimeoutError:
        pass
result = [time_limit(1, lambda: _call("echo", i)) for i in range(100)] == list(range(100))`: "true",
	} {
		h := &limitHost{host: newHost(), over: map[int]chan struct{}{}}
		o := open(t, worker.Limits{}).program(t, sandbox.Program{Code: call + code, Seed: seed(1)}, h)
		if o.Status != sandbox.Completed || string(o.Result) != want {
			t.Errorf("%s: %s %s %s, want %s", code, o.Status, o.Error, o.Result, want)
		}
		if expired := strings.Contains(code, "expire"); expired != strings.Contains(strings.Join(h.calls, " "), "step_done") {
			t.Errorf("%s: %q", code, h.calls)
		}
	}
}

func TestTimeLimitsRejectWrongArguments(t *testing.T) {
	for code, want := range map[string]string{
		"time_limit(0, print)":   "ValueError: time_limit(seconds, fn, *args): a number of seconds above 0 is needed, got 0",
		"time_limit('1', print)": "ValueError: time_limit(seconds, fn",
		"time_limit(1, 5)":       "TypeError: time_limit(seconds, fn, *args): fn must be a function, got int",
	} {
		o := open(t, worker.Limits{}).program(t, sandbox.Program{Code: code, Seed: seed(1)}, newHost())
		if got := o.ErrorType + ": " + o.Error; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
}
