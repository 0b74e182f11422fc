//go:build linux

package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// stepHost records steps like a record of the journal.
type stepHost struct {
	*clocked
	mu     sync.Mutex
	ids    map[int]string
	values map[string]json.RawMessage // {"value", "drew"} by parent, name and number
	within []string                   // the step of each other call
}

func newStepHost() *stepHost {
	return &stepHost{clocked: &clocked{host: newHost()}, ids: map[int]string{}, values: map[string]json.RawMessage{}}
}

func (h *stepHost) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var a struct {
		Name      string          `json:"name"`
		N, Parent int             `json:"-"`
		Number    int             `json:"number"`
		Value     json.RawMessage `json:"value"`
		Drew      int             `json:"drew"`
	}
	var k struct{ N, Parent int }
	_ = json.Unmarshal(args, &a)
	_ = json.Unmarshal(args, &k)
	switch method {
	case "step":
		id := fmt.Sprintf("%s/%s %d", h.ids[k.Parent], a.Name, k.N)
		if v, ok := h.values[id]; ok {
			return v, nil
		}
		n := len(h.ids) + 1
		h.ids[n] = id
		return fmt.Appendf(nil, `{"number":%d}`, n), nil
	case "step_done":
		if at := h.ids[sandbox.StepOf(ctx)]; at != h.ids[a.Number] { // its clock readings are of the step
			return nil, fmt.Errorf("the end of step %s is in step %s", h.ids[a.Number], at)
		}
		h.values[h.ids[a.Number]] = fmt.Appendf(nil, `{"value":%s,"drew":%d}`, a.Value, a.Drew)
		return []byte("null"), nil
	}
	h.within = append(h.within, h.ids[sandbox.StepOf(ctx)])
	return h.clocked.Call(ctx, method, args)
}

func (h *stepHost) run(t *testing.T, code string) sandbox.Outcome {
	t.Helper()
	return open(t, worker.Limits{}).program(t, sandbox.Program{Code: code, Seed: seed(1)}, h)
}

const stepsOfAllKinds = `
import asyncio, random, os
log = []
def f(*a, **k):
    log.append([*a, *k])
    list_skills()
    return {"a": (1, 2), "at": date(2026, 1, 2)}

@step
def g(x):
    "doc"
    log.append(x)
    return step("inside", lambda: x + 1) + step("inside", lambda: x + 2)

@step("named")
async def h(x):
    log.append(x)
    await asyncio.sleep(0)
    return x

r = [step("f", f, 1, k=2), step("f", f), g(10), g(20), g.__name__, g.__doc__, await h(7)]
r += await asyncio.gather(h(8), step("gathered", h.__wrapped__, 9))
r += parallel(lambda: step("a", list_skills), lambda: step("b", list_skills))
r += [step("draw", lambda: random.random() and 0), step("more", lambda: os.urandom(9) and 0), random.random(), step("no draw", lambda: 0), os.urandom(4).hex(), random.random()]
try: step("raises", lambda: 1 / 0)
except ZeroDivisionError: r.append("raised")
list_skills()
[r, len(log)]`

func TestStepsAreRunOnce(t *testing.T) {
	h := newStepHost()
	first := h.run(t, stepsOfAllKinds)
	if first.Status != sandbox.Completed || !strings.HasPrefix(string(first.Result),
		`[[{"a":[1,2],"at":"2026-01-02"},{"a":[1,2],"at":"2026-01-02"},23,43,"g","doc",7,8,9,[],[],0,0,`) ||
		!strings.HasSuffix(string(first.Result), `"raised"],7]`) {
		t.Fatalf("%s %s %s", first.Status, first.Result, first.Traceback)
	}
	want := []string{"/f 1", "/f 2", "/a 1", "/b 1", ""}
	for _, w := range want {
		if !strings.Contains(","+strings.Join(h.within, ",")+",", ","+w+",") {
			t.Errorf("the calls were made in %q, want also %q", h.within, w)
		}
	}
	h.within = nil
	again := h.run(t, stepsOfAllKinds)
	if got, want := string(again.Result), strings.TrimSuffix(string(first.Result), "7]")+"0]"; got != want {
		t.Errorf("%s %s\nthe replay gave %s\nwant            %s", again.Status, again.Traceback, got, want)
	}
	if len(h.within) != 1 {
		t.Errorf("the replay made calls in %q", h.within)
	}
	if _, ok := h.values["/raises 1"]; ok {
		t.Error("a step that raised is on record")
	}
}

// Without a record, as in a session, steps run as plain calls, with the same values.
func TestStepsWithoutRecord(t *testing.T) {
	h := newStepHost()
	o := open(t, worker.Limits{}).program(t, sandbox.Program{Code: stepsOfAllKinds}, h)
	if o.Status != sandbox.Completed || !strings.HasSuffix(string(o.Result), ",7]") || len(h.ids) != 0 {
		t.Errorf("%s %s %s", o.Status, o.Result, o.Traceback)
	}
}

func TestStepsRejectWrongArguments(t *testing.T) {
	for code, want := range map[string]string{
		"step('a', 5)": "TypeError: step('a', fn, *args): fn must be a function, got int: write step('a', f, " +
			"x), not step('a', f(x))",
		"step(5, print)":                  "TypeError: step(name, fn, *args): the name must be text, got int",
		"step(5)":                         "TypeError: step(name, fn, *args): the name must be text, got int",
		"step('', print)":                 "ValueError: step(name, fn, *args): the name has 0 characters, 1 to 200 are allowed",
		"step('x' * 201, print)":          "ValueError: step(name, fn, *args): the name has 201 characters, 1 to 200 are allowed",
		"step('a', lambda: object())":     "TypeError: the value of step 'a' cannot be recorded: object is not JSON",
		"step('a', lambda: float('nan'))": "ValueError: the value of step 'a' cannot be recorded: ",
		"step('a', lambda: 'x' * (1 << 20))": "ValueError: the value of step 'a' has 1048578 bytes of JSON, at most 1048576 are " +
			"allowed: write it to a file",
		"step('a', lambda: b'x')":                "TypeError: the value of step 'a' cannot be recorded: bytes is not JSON",
		"x = []; x.append(x); step('a', x.copy)": "ValueError: the value of step 'a' cannot be recorded: Circular reference detected",
	} {
		h := newStepHost()
		o := h.run(t, code)
		if got := o.ErrorType + ": " + o.Error; !strings.HasPrefix(got, want) || len(h.values) != 0 {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
}
