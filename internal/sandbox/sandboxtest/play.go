package sandboxtest

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

//go:embed attack.py
var prelude string

// player runs the steps of one case.
type player struct {
	*Result
	s      *scene
	b      sandbox.Backend
	c      Case
	oneUID bool
	boxes  map[string]sandbox.Sandbox
	ear    ear
}

// play runs c and returns when all its sandboxes are closed.
func (s *scene) play(t *testing.T, b sandbox.Backend, c Case, oneUID bool) *Result {
	t.Helper()
	p := &player{Result: &Result{Results: map[string]any{}}, s: s, b: b, c: c, oneUID: oneUID, boxes: map[string]sandbox.Sandbox{}}
	p.ear.most = c.Output
	defer func() {
		for _, box := range p.boxes {
			box.Close()
		}
		p.Output, p.Calls = p.ear.heard()
		s.wipe(t)
	}()
	for _, step := range c.Steps {
		for range max(1, step.Repeat) {
			if p.step(t, step); p.Success != "" || p.Impossible != "" || p.Failure != "" {
				return p.Result
			}
		}
	}
	return p.Result
}

func (p *player) step(t *testing.T, step Step) {
	t.Helper()
	ctx, cancel := deadline(t.Context(), p.c)
	defer cancel()
	who := step.By
	box := p.boxes[who]
	if box == nil {
		var err error
		if box, err = p.b.Open(ctx, p.spec(step)); err != nil {
			if !step.MayNotOpen {
				p.Failure = fmt.Sprintf("opening a sandbox for %s: %v", who, err)
			}
			return
		}
		p.boxes[who] = box
	}
	out := p.run(ctx, t, box, step)
	p.Outcomes = append(p.Outcomes, out)
	if step.End || step.Repeat > 0 {
		box.Close()
		delete(p.boxes, who)
	}
	p.take(who, out)
}

func (p *player) run(ctx context.Context, t *testing.T, box sandbox.Sandbox, step Step) sandbox.Outcome {
	t.Helper()
	vars, err := json.Marshal(map[string]any{"host": p.s.known, "said": p.Results})
	if err != nil {
		t.Fatal(err)
	}
	out, err := box.Run(ctx, sandbox.Program{ID: "case", Code: prelude + "\n" + step.Code + "\nNone", Vars: vars}, &p.ear)
	if err != nil {
		t.Fatalf("%s: %v", step.By, err)
	}
	return out
}

// take notes what a step came to.
func (p *player) take(who string, out sandbox.Outcome) {
	attacker := owner(who) == "mallory"
	var got any
	_ = json.Unmarshal(out.Result, &got)
	p.Results[who] = got
	switch {
	case out.ErrorType == "Impossible":
		p.Impossible = out.Error
	case attacker && truthy(got) && !said(got):
		p.Success = fmt.Sprintf("%.300s", out.Result)
	case !attacker && out.Status != sandbox.Completed:
		p.Failure = fmt.Sprintf("%s was to be left alone: %s %s %s", who, out.Status, out.Error, out.Traceback)
	}
}

func (p *player) spec(step Step) sandbox.Spec {
	spec := p.s.setup.Spec(owner(step.By), p.oneUID)
	spec.Limits = p.c.Limits
	for i, m := range step.Mounts {
		name := fmt.Sprintf("%s.mount%d", owner(step.By), i)
		p.s.mark(p.s.setup.Dir(spec, name))
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Target: m.Target, Root: spec.Mounts[0].Root, Name: name, ReadOnly: m.ReadOnly})
	}
	return spec
}

// owner is who acts, without the number of the sandbox.
func owner(by string) string {
	name, _, _ := strings.Cut(by, "/")
	return name
}

// truthy is Python's idea of it.
func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case float64:
		return v != 0
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

// said tells a note of an attacker to a later step, {"note": …}, from a success.
func said(v any) bool {
	m, ok := v.(map[string]any)
	_, note := m["note"]
	return ok && note
}

// usual are the exceptions by which a sandbox refuses.
var usual = []string{
	"OSError", "PermissionError", "FileNotFoundError", "FileExistsError", "NotADirectoryError", "IsADirectoryError", "BlockingIOError",
	"ProcessLookupError", "ChildProcessError", "ConnectionError", "ConnectionRefusedError", "BrokenPipeError", "TimeoutError", "gaierror", "MemoryError",
}

// judge fails the test unless the promise was kept.
func (p *Result) judge(t *testing.T, c Case) {
	t.Helper()
	switch {
	case p.Success != "":
		t.Errorf("%s\nthe attack succeeded: %s", c.Promise, p.Success)
		return
	case p.Failure != "":
		t.Errorf("%s\n%s", c.Promise, p.Failure)
		return
	}
	for _, out := range p.Outcomes[:max(0, len(p.Outcomes)-1)] {
		if end := ending(out); !ordinary(out) && !slices.Contains(c.Ends, end) {
			t.Errorf("a step before the last ended as %s: %s\n%s", end, out.Error, out.Traceback)
		}
	}
	if len(p.Outcomes) == 0 {
		return
	}
	out := p.Last()
	if end := ending(out); (c.Must || !ordinary(out)) && !slices.Contains(c.Ends, end) && p.Impossible == "" {
		t.Errorf("it ended as %s, want %v: %s\n%s%s", end, c.Ends, out.Error, out.Traceback, out.Stderr)
	}
	if c.Check != nil {
		if wrong := c.Check(p); wrong != "" {
			t.Errorf("%s\n%s", c.Promise, wrong)
		}
	}
}

func ordinary(out sandbox.Outcome) bool {
	return out.Status == sandbox.Completed || out.Status == sandbox.Raised && slices.Contains(usual, out.ErrorType)
}

func ending(out sandbox.Outcome) string {
	if out.Limit != "" {
		return string(out.Status) + ":" + out.Limit
	}
	if out.Status == sandbox.Raised && !slices.Contains(usual, out.ErrorType) {
		return "raised:" + out.ErrorType
	}
	return string(out.Status)
}

// mustWin fails the test unless the attack succeeded.
func (p *Result) mustWin(t *testing.T, c Case) {
	t.Helper()
	switch {
	case p.Failure != "":
		t.Errorf("with %v off: %s", c.Layers, p.Failure)
	case p.Impossible != "":
		t.Skip(p.Impossible)
	case p.Success == "":
		out := p.Last()
		t.Errorf("with %v off the attack failed all the same: %s %s %s\n%s%s", c.Layers, out.Status, out.Result, out.Error, out.Traceback, out.Stderr)
	}
}

// ear is the host of every step: it takes output and answers nothing but echo.
type ear struct {
	mu     sync.Mutex
	output []string
	bytes  int
	most   int
	calls  int

	readings []int64 // of the clock
}

// RecordClock implements sandbox.ClockRecorder.
func (e *ear) RecordClock(readings []int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readings = append(e.readings, readings...)
}

func (e *ear) Call(_ context.Context, method string, args []byte) ([]byte, error) {
	e.mu.Lock()
	e.calls++
	e.mu.Unlock()
	if method == "echo" {
		return args, nil
	}
	return nil, fault.New(fault.NotFound, "there is no call %.40q", method)
}

// heard is what came so far: a call that took too long may still be on its way.
func (e *ear) heard() ([]string, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.output, e.calls
}

func (e *ear) Output(p []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes += len(p); e.most > 0 && e.bytes > e.most {
		return fault.New(fault.Exhausted, "more than %d bytes of output", e.most)
	}
	if len(e.output) < 1000 {
		e.output = append(e.output, string(p))
	}
	return nil
}
