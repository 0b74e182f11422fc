package sandboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// contract tests the contract of package sandbox.
func contract(t *testing.T, s *scene, b sandbox.Backend) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *scene, sandbox.Backend)
	}{
		{"invalid specs", invalidSpecs}, {"live interpreter", liveInterpreter}, {"freeze and thaw", freezeThaw},
		{"deterministic replay", replay}, {"ending a program", endProgram}, {"concurrent sandboxes", concurrentSandboxes},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, s, b)
		})
	}
	s.waitForCleanup(t, b)
}

func invalidSpecs(t *testing.T, s *scene, b sandbox.Backend) {
	good := s.setup.Spec("mallory", false)
	mount := good.Mounts[0]
	change := func(f func(*sandbox.Mount)) []sandbox.Mount {
		m := mount
		f(&m)
		return []sandbox.Mount{m}
	}
	_ = s.setup.Dir(good, "mallory/inner")
	for name, mounts := range map[string][]sandbox.Mount{
		"no mounts":           nil,
		"no workspace":        change(func(m *sandbox.Mount) { m.Target = "/elsewhere" }),
		"an unknown root":     change(func(m *sandbox.Mount) { m.Root = "nowhere" }),
		"a missing directory": change(func(m *sandbox.Mount) { m.Name = "nobody" }),
		"the root itself":     change(func(m *sandbox.Mount) { m.Name = "." }),
		"no name":             change(func(m *sandbox.Mount) { m.Name = "" }),
		"above the root":      change(func(m *sandbox.Mount) { m.Name = ".." }),
		"two elements":        change(func(m *sandbox.Mount) { m.Name = "mallory/inner" }),
		"an absolute name":    change(func(m *sandbox.Mount) { m.Name = "/etc" }),
	} {
		spec := good
		spec.Mounts = mounts
		if sb, err := b.Open(t.Context(), spec); err == nil {
			sb.Close()
			t.Errorf("a spec with %s was opened", name)
		}
	}
	spec := good
	spec.Owner = ""
	if sb, err := b.Open(t.Context(), spec); err == nil {
		sb.Close()
		t.Error("a spec without an owner was opened")
	}
	spec = good
	spec.Backend = "absent"
	if sb, err := b.Open(t.Context(), spec); err == nil {
		sb.Close()
		t.Error("a spec for another backend was opened")
	}
	spec = good
	spec.PackageLayer = "absent"
	if sb, err := b.Open(t.Context(), spec); err == nil {
		sb.Close()
		t.Error("a spec with an unknown package layer was opened")
	}
	s.emptyWorkspaces(t)
}

func liveInterpreter(t *testing.T, s *scene, b sandbox.Backend) {
	sb := open(t, s, b)
	for _, step := range []struct{ code, vars, result string }{
		{"x = 20", "", ""},
		{"x + y", `{"y": 22}`, "42"},
		{"result = [x, 'ü', None, 1.5]", "", `[20,"ü",null,1.5]`},
	} {
		out := run(t, sb, sandbox.Program{ID: "living", Code: step.code, Vars: json.RawMessage(step.vars)})
		if out.Status != sandbox.Completed || string(out.Result) != step.result {
			t.Errorf("%s: %s %s %s, want %s", step.code, out.Status, out.Result, out.Error, step.result)
		}
	}
	if out := run(t, sb, sandbox.Program{ID: "living", Code: "1/0"}); out.Status != sandbox.Raised || out.ErrorType != "ZeroDivisionError" {
		t.Errorf("an exception ended as %s %s", out.Status, out.ErrorType)
	}
	if out := run(t, sb, sandbox.Program{ID: "living", Code: "x"}); string(out.Result) != "20" {
		t.Errorf("after an exception x is %s", out.Result)
	}
	if out := run(t, sb, sandbox.Program{ID: "living", Code: "'[A]' + str(callable(tokenize_pii))",
		Tokens: map[string]string{"[A]": "it's "}, Privacy: true}); string(out.Result) != `"it's True"` {
		t.Errorf("a token maps to %s %s", out.Result, out.Error)
	}
	if out := run(t, sb, sandbox.Program{ID: "living", Code: "import os; os._exit(1)"}); out.Status != sandbox.Crashed {
		t.Errorf("an exit ended as %s", out.Status)
	}
	if out := run(t, sb, sandbox.Program{ID: "living", Code: "1"}); out.Status != sandbox.Crashed {
		t.Errorf("after the end a program ended as %s", out.Status)
	}
}

// replay tests that a program with the same seed and clock readings returns the same result in
// another backend, and that another seed changes the result.
func replay(t *testing.T, s *scene, b sandbox.Backend) {
	const code = `
import os, random, time, uuid
result = [random.random(), os.urandom(8).hex(), str(uuid.uuid4()), list({"a", "b", "c", "d", "e", "f", "g", "h"}), hash("x"), time.time_ns(), datetime.now(), time.time_ns()]
try: list_skills()
except FileNotFoundError: pass`
	do := func(b sandbox.Backend, seed byte, clock ...int64) (string, *recorder) {
		sb, e := open(t, s, b), &recorder{}
		defer sb.Close()
		out, err := sb.Run(t.Context(), sandbox.Program{ID: "again", Code: code, Seed: bytes.Repeat([]byte{seed}, 32), Clock: clock}, e)
		if err != nil || out.Status != sandbox.Completed {
			t.Fatalf("%v %s %s", err, out.Error, out.Traceback)
		}
		return string(out.Result), e
	}
	began := time.Now().UnixNano()
	first, r := do(b, 1)
	if len(r.readings) != 3 || r.readings[0] < began || r.readings[2] > time.Now().UnixNano() {
		t.Fatalf("clock readings %v", r.readings)
	}
	other := s.setup.Open(t)
	if again, more := do(other, 1, r.readings...); again != first || len(more.readings) != 0 {
		t.Errorf("first run: %s, second run: %s, with %d new clock readings", first, again, len(more.readings))
	}
	if again, _ := do(b, 2, r.readings...); again == first {
		t.Errorf("another seed also returns %s", again)
	}
}

// freezeThaw tests the Freezer of a backend that has one.
func freezeThaw(t *testing.T, s *scene, b sandbox.Backend) {
	sb := open(t, s, b)
	f, ok := sb.(sandbox.Freezer)
	if !ok {
		t.Skip("this backend cannot freeze")
	}
	run(t, sb, sandbox.Program{ID: "frozen", Code: "x = 20"})
	for name, step := range map[string]func() error{"freezing twice": func() error { return errors.Join(f.Freeze(), f.Freeze()) },
		"thawing": f.Thaw} {
		if err := errors.Join(step(), f.Thaw(), f.Thaw()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if out := run(t, sb, sandbox.Program{ID: "frozen", Code: "x"}); string(out.Result) != "20" {
			t.Errorf("%s: x is %s %s", name, out.Result, out.Error)
		}
	}
	if err := errors.Join(f.Freeze(), sb.Close()); err != nil {
		t.Error(err)
	}
	if f.Freeze() == nil || f.Thaw() == nil {
		t.Error("a closed sandbox was frozen and thawed")
	}
}

// endProgram tests the three ways in which the host ends a program.
func endProgram(t *testing.T, s *scene, b sandbox.Backend) {
	for name, end := range map[string]struct {
		end  func(context.CancelCauseFunc, sandbox.Sandbox)
		want sandbox.Status
	}{
		"time":         {func(c context.CancelCauseFunc, _ sandbox.Sandbox) { c(sandbox.ErrTimeout) }, sandbox.TimedOut},
		"cancellation": {func(c context.CancelCauseFunc, _ sandbox.Sandbox) { c(errors.New("caller is gone")) }, sandbox.Cancelled},
		"closing":      {func(_ context.CancelCauseFunc, x sandbox.Sandbox) { x.Close() }, sandbox.Crashed},
	} {
		sb := open(t, s, b)
		ctx, cancel := context.WithCancelCause(t.Context())
		running := &outputWaiter{received: make(chan struct{})}
		go func() { <-running.received; end.end(cancel, sb) }()
		started := time.Now()
		out, err := sb.Run(ctx, sandbox.Program{ID: "end", Code: "print('begun')\nwhile True: pass"}, running)
		if err != nil || out.Status != end.want {
			t.Errorf("%s: %v %s, want %s", name, err, out.Status, end.want)
		}
		if took := time.Since(started); took > time.Duration(max(1, s.setup.Slowness))*10*time.Second {
			t.Errorf("%s took %s", name, took)
		}
		cancel(nil)
		if err := sb.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := sb.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	}
}

func concurrentSandboxes(t *testing.T, s *scene, b sandbox.Backend) {
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			spec := s.setup.Spec([]string{"alice", "mallory", "bystander"}[i%3], false)
			sb, err := b.Open(t.Context(), spec)
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			defer sb.Close()
			out, err := sb.Run(t.Context(), sandbox.Program{ID: "many",
				Code: "import os\nopen('/tmp/mine', 'x').write('x')\nlen(os.listdir('/tmp'))"}, &recorder{})
			if err != nil || string(out.Result) != "1" {
				t.Errorf("%v %s %s %s", err, out.Status, out.Result, out.Error)
			}
		})
	}
	wg.Wait()
}

// outputWaiter is a host that closes received at the first output.
type outputWaiter struct {
	recorder
	once     sync.Once
	received chan struct{}
}

func (w *outputWaiter) Output([]byte) error {
	w.once.Do(func() { close(w.received) })
	return nil
}

func open(t *testing.T, s *scene, b sandbox.Backend) sandbox.Sandbox {
	t.Helper()
	sb, err := b.Open(t.Context(), s.setup.Spec("mallory", false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}

func run(t *testing.T, sb sandbox.Sandbox, p sandbox.Program) sandbox.Outcome {
	t.Helper()
	out, err := sb.Run(t.Context(), p, &recorder{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
