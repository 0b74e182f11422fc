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

// caseRunner runs the steps of one case.
type caseRunner struct {
	*Result
	s         *scene
	b         sandbox.Backend
	c         Case
	oneUID    bool
	sandboxes map[string]sandbox.Sandbox
	recorder  recorder
}

// play runs c and returns when all its sandboxes are closed.
func (s *scene) play(t *testing.T, b sandbox.Backend, c Case, oneUID bool) *Result {
	t.Helper()
	p := &caseRunner{
		Result:    &Result{Results: map[string]any{}},
		s:         s,
		b:         b,
		c:         c,
		oneUID:    oneUID,
		sandboxes: map[string]sandbox.Sandbox{},
	}
	p.recorder.maxBytes = c.Output
	defer func() {
		for _, sb := range p.sandboxes {
			sb.Close()
		}
		p.Output, p.Calls = p.recorder.recorded()
		s.emptyWorkspaces(t)
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

func (p *caseRunner) step(t *testing.T, step Step) {
	t.Helper()
	who := step.By
	sb := p.sandboxes[who]
	if sb == nil {
		var err error
		if sb, err = p.b.Open(t.Context(), p.spec(step)); err != nil {
			if !step.MayNotOpen {
				p.Failure = fmt.Sprintf("open a sandbox for %s: %v", who, err)
			}
			return
		}
		p.sandboxes[who] = sb
	}
	ctx, cancel := p.s.setup.deadline(t.Context(), p.c)
	defer cancel()
	out := p.run(ctx, t, sb, step)
	p.Outcomes = append(p.Outcomes, out)
	if step.End || step.Repeat > 0 {
		sb.Close()
		delete(p.sandboxes, who)
	}
	p.take(who, out)
}

func (p *caseRunner) run(ctx context.Context, t *testing.T, sb sandbox.Sandbox, step Step) sandbox.Outcome {
	t.Helper()
	vars, err := json.Marshal(map[string]any{"host": p.s.known, "results": p.Results})
	if err != nil {
		t.Fatal(err)
	}
	out, err := sb.Run(ctx, sandbox.Program{ID: "case", Code: prelude + "\n" + step.Code + "\nNone", Vars: vars}, &p.recorder)
	if err != nil {
		t.Fatalf("%s: %v", step.By, err)
	}
	return out
}

// take records the result of a step.
func (p *caseRunner) take(who string, out sandbox.Outcome) {
	attacker := owner(who) == "mallory"
	var got any
	_ = json.Unmarshal(out.Result, &got)
	p.Results[who] = got
	switch {
	case out.ErrorType == "Impossible":
		p.Impossible = out.Error
	case attacker && truthy(got) && !isNote(got):
		p.Success = fmt.Sprintf("%.300s", out.Result)
	case !attacker && out.Status != sandbox.Completed:
		p.Failure = fmt.Sprintf("the step of %s was disturbed: %s %s %s", who, out.Status, out.Error, out.Traceback)
	}
}

func (p *caseRunner) spec(step Step) sandbox.Spec {
	spec := p.s.setup.Spec(owner(step.By), p.oneUID)
	spec.Limits = p.c.Limits
	for i, m := range step.Mounts {
		name := fmt.Sprintf("%s.mount%d", owner(step.By), i)
		p.s.writeMarker(p.s.setup.Dir(spec, name))
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Target: m.Target, Root: spec.Mounts[0].Root, Name: name, ReadOnly: m.ReadOnly})
	}
	return spec
}

// owner returns the owner in Step.By, without the number of the sandbox.
func owner(by string) string {
	name, _, _ := strings.Cut(by, "/")
	return name
}

// truthy reports whether v is true in Python.
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

// isNote reports whether a result of the attacker is a message to a later step, {"note": …}, not a
// success.
func isNote(v any) bool {
	m, ok := v.(map[string]any)
	_, note := m["note"]
	return ok && note
}

// expectedExceptions are the exceptions that code gets when a layer stops it.
var expectedExceptions = []string{
	"OSError", "PermissionError", "FileNotFoundError", "FileExistsError", "NotADirectoryError", "IsADirectoryError", "BlockingIOError",
	"ProcessLookupError", "ChildProcessError", "ConnectionError", "ConnectionRefusedError", "BrokenPipeError", "TimeoutError", "gaierror",
	"MemoryError",
}

// check fails the test if the attack broke the promise.
func (p *Result) check(t *testing.T, c Case) {
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
		if end := ending(out); !isExpected(out) && !slices.Contains(c.Ends, end) {
			t.Errorf("a step before the last ended as %s: %s\n%s", end, out.Error, out.Traceback)
		}
	}
	if len(p.Outcomes) == 0 {
		return
	}
	out := p.Last()
	if end := ending(out); (c.Must || !isExpected(out)) && !slices.Contains(c.Ends, end) && p.Impossible == "" {
		t.Errorf("the last step ended as %s, want %v: %s\n%s%s", end, c.Ends, out.Error, out.Traceback, out.Stderr)
	}
	if c.Check != nil {
		if wrong := c.Check(p); wrong != "" {
			t.Errorf("%s\n%s", c.Promise, wrong)
		}
	}
}

func isExpected(out sandbox.Outcome) bool {
	return out.Status == sandbox.Completed || out.Status == sandbox.Raised && slices.Contains(expectedExceptions, out.ErrorType)
}

func ending(out sandbox.Outcome) string {
	if out.Limit != "" {
		return string(out.Status) + ":" + out.Limit
	}
	if out.Status == sandbox.Raised && !slices.Contains(expectedExceptions, out.ErrorType) {
		return "raised:" + out.ErrorType
	}
	return string(out.Status)
}

// requireSuccess fails the test unless the attack succeeded.
func (p *Result) requireSuccess(t *testing.T, c Case) {
	t.Helper()
	switch {
	case p.Failure != "":
		t.Errorf("with %v disabled: %s", c.Layers, p.Failure)
	case p.Impossible != "":
		t.Skip(p.Impossible)
	case p.Success == "":
		out := p.Last()
		t.Errorf("with %v disabled the attack still failed: %s %s %s\n%s%s", c.Layers, out.Status, out.Result, out.Error, out.Traceback,
			out.Stderr)
	}
}

// recorder is the host of every step. It records output and answers the method echo only.
type recorder struct {
	mu       sync.Mutex
	output   []string
	bytes    int
	maxBytes int
	calls    int

	readings []int64 // of the clock
}

// RecordClock implements sandbox.ClockRecorder.
func (e *recorder) RecordClock(_ int, readings []int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readings = append(e.readings, readings...)
}

func (e *recorder) Call(_ context.Context, method string, args []byte) ([]byte, error) {
	e.mu.Lock()
	e.calls++
	e.mu.Unlock()
	if method == "echo" {
		return args, nil
	}
	return nil, fault.New(fault.NotFound, "there is no call %.40q", method)
}

// recorded returns the output and the number of calls so far; more may still arrive.
func (e *recorder) recorded() ([]string, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.output, e.calls
}

func (e *recorder) Output(p []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes += len(p); e.maxBytes > 0 && e.bytes > e.maxBytes {
		return fault.New(fault.Exhausted, "more than %d bytes of output", e.maxBytes)
	}
	if len(e.output) < 1000 {
		e.output = append(e.output, string(p))
	}
	return nil
}
