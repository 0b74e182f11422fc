//go:build linux

package worker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// waitHost answers waits with their own arguments as the value of a signal.
type waitHost struct {
	*clocked
	waits []string
}

func (h *waitHost) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	if method != "wait" {
		return h.clocked.Call(ctx, method, args)
	}
	h.waits = append(h.waits, string(args))
	if strings.Contains(string(args), "never") {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]json.RawMessage{"value": args})
}

func TestWaits(t *testing.T) {
	for code, want := range map[string]string{
		"sleep_until(5)":                              `{"until":5,"alone":true}`,
		"sleep_until('2026-01-02T03:04:05Z')":         `{"until":1767323045.0,"alone":true}`,
		"sleep_until(datetime(2026, 1, 2, 3, 4, 5))":  `{"until":1767323045.0,"alone":true}`,
		"sleep_for(60)":                               `{"for":60,"alone":true}`,
		"sleep_for(timedelta(minutes=1))":             `{"for":60.0,"alone":true}`,
		"wait_for('paid')":                            `{"event":"paid","alone":true}`,
		"wait_for('paid', timeout=1)":                 `{"event":"paid","for":1,"alone":true}`,
		"parallel(lambda: sleep_until(5), lambda: 1)": `{"until":5,"alone":false}`,
	} {
		h := &waitHost{clocked: &clocked{host: newHost()}}
		o := open(t, worker.Limits{}).program(t, sandbox.Program{Code: code, Seed: seed(1)}, h)
		if o.Status != sandbox.Completed || strings.Join(h.waits, " ") != want {
			t.Errorf("%s: %s %s %v, want %s", code, o.Status, o.Error, h.waits, want)
		}
	}
}

func TestWaitsRejectWrongArguments(t *testing.T) {
	for code, want := range map[string]string{
		"sleep_until('tomorrow')":      "ValueError: sleep_until(when): 'tomorrow' is not an ISO time",
		"sleep_until(float('nan'))":    "ValueError: sleep_until(when): a datetime, an ISO string or seconds since 1970 is needed, got nan",
		"sleep_until(1e300)":           "ValueError: sleep_until(when)",
		"sleep_until(None)":            "ValueError: sleep_until(when)",
		"sleep_for(-1)":                "ValueError: sleep_for(seconds): a number of seconds from 0 is needed, got -1",
		"sleep_for('1')":               "ValueError: sleep_for(seconds)",
		"wait_for('')":                 "ValueError: wait_for(event, timeout): the event must be text of 1 to 200 characters",
		"wait_for(5)":                  "ValueError: wait_for(event, timeout)",
		"wait_for('never', timeout=2)": "TimeoutError: no signal 'never' arrived within 2 s",
	} {
		o := open(t, worker.Limits{}).program(t, sandbox.Program{Code: code, Seed: seed(1)}, &waitHost{clocked: &clocked{host: newHost()}})
		if got := o.ErrorType + ": " + o.Error; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
}
