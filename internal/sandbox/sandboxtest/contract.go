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

// contract tests what package sandbox promises to callers, beside attacks.
func contract(t *testing.T, s *scene, b sandbox.Backend) {
	t.Run("specs that cannot be", func(t *testing.T) { badSpecs(t, s, b) })
	t.Run("a living interpreter", func(t *testing.T) { livingInterpreter(t, s, b) })
	t.Run("a frozen interpreter", func(t *testing.T) { frozenInterpreter(t, s, b) })
	t.Run("a second run", func(t *testing.T) { secondRun(t, s, b) })
	t.Run("ends", func(t *testing.T) { ends(t, s, b) })
	t.Run("many at once", func(t *testing.T) { manyAtOnce(t, s, b) })
	s.settle(t, b)
}

func badSpecs(t *testing.T, s *scene, b sandbox.Backend) {
	good := s.setup.Spec("mallory", false)
	mount := good.Mounts[0]
	change := func(f func(*sandbox.Mount)) []sandbox.Mount {
		m := mount
		f(&m)
		return []sandbox.Mount{m}
	}
	_ = s.setup.Dir(good, "mallory/inner")
	for name, mounts := range map[string][]sandbox.Mount{
		"no mounts":             nil,
		"no workspace":          change(func(m *sandbox.Mount) { m.Target = "/elsewhere" }),
		"an unknown root":       change(func(m *sandbox.Mount) { m.Root = "nowhere" }),
		"a name that is no one": change(func(m *sandbox.Mount) { m.Name = "nobody" }),
		"the root itself":       change(func(m *sandbox.Mount) { m.Name = "." }),
		"no name":               change(func(m *sandbox.Mount) { m.Name = "" }),
		"above the root":        change(func(m *sandbox.Mount) { m.Name = ".." }),
		"two elements":          change(func(m *sandbox.Mount) { m.Name = "mallory/inner" }),
		"an absolute name":      change(func(m *sandbox.Mount) { m.Name = "/etc" }),
	} {
		spec := good
		spec.Mounts = mounts
		if box, err := b.Open(t.Context(), spec); err == nil {
			box.Close()
			t.Errorf("a spec with %s was opened", name)
		}
	}
	spec := good
	spec.Owner = ""
	if box, err := b.Open(t.Context(), spec); err == nil {
		box.Close()
		t.Error("a spec without an owner was opened")
	}
	s.wipe(t)
}

func livingInterpreter(t *testing.T, s *scene, b sandbox.Backend) {
	box := open(t, s, b)
	for _, step := range []struct{ code, vars, result string }{
		{"x = 20", "", ""},
		{"x + y", `{"y": 22}`, "42"},
		{"result = [x, 'ü', None, 1.5]", "", `[20,"ü",null,1.5]`},
	} {
		out := run(t, box, sandbox.Program{ID: "living", Code: step.code, Vars: json.RawMessage(step.vars)})
		if out.Status != sandbox.Completed || string(out.Result) != step.result {
			t.Errorf("%s: %s %s %s, want %s", step.code, out.Status, out.Result, out.Error, step.result)
		}
	}
	if out := run(t, box, sandbox.Program{ID: "living", Code: "1/0"}); out.Status != sandbox.Raised || out.ErrorType != "ZeroDivisionError" {
		t.Errorf("an exception ended as %s %s", out.Status, out.ErrorType)
	}
	if out := run(t, box, sandbox.Program{ID: "living", Code: "x"}); string(out.Result) != "20" {
		t.Errorf("after an exception x is %s", out.Result)
	}
	if out := run(t, box, sandbox.Program{ID: "living", Code: "'[A]' + str(callable(tokenize_pii))", Tokens: map[string]string{"[A]": "it's "}, Privacy: true}); string(out.Result) != `"it's True"` {
		t.Errorf("a token stands for %s %s", out.Result, out.Error)
	}
	if out := run(t, box, sandbox.Program{ID: "living", Code: "import os; os._exit(1)"}); out.Status != sandbox.Crashed {
		t.Errorf("an exit ended as %s", out.Status)
	}
	if out := run(t, box, sandbox.Program{ID: "living", Code: "1"}); out.Status != sandbox.Crashed {
		t.Errorf("after the end a program ended as %s", out.Status)
	}
}

// secondRun tests that the same code with the same seed and clock does the same
// again, in another sandbox of another backend, and that nothing else does.
func secondRun(t *testing.T, s *scene, b sandbox.Backend) {
	const code = `
import os, random, time, uuid
result = [random.random(), os.urandom(8).hex(), str(uuid.uuid4()), list({"a", "b", "c", "d", "e", "f", "g", "h"}), hash("x"), time.time_ns(), datetime.now(), time.time_ns()]
try: list_skills()
except FileNotFoundError: pass`
	do := func(b sandbox.Backend, seed byte, clock ...int64) (string, *ear) {
		box, e := open(t, s, b), &ear{}
		defer box.Close()
		out, err := box.Run(t.Context(), sandbox.Program{ID: "again", Code: code, Seed: bytes.Repeat([]byte{seed}, 32), Clock: clock}, e)
		if err != nil || out.Status != sandbox.Completed {
			t.Fatalf("%v %s %s", err, out.Error, out.Traceback)
		}
		return string(out.Result), e
	}
	began := time.Now().UnixNano()
	first, heard := do(b, 1)
	if len(heard.readings) != 3 || heard.readings[0] < began || heard.readings[2] > time.Now().UnixNano() {
		t.Fatalf("the clock was read as %v", heard.readings)
	}
	other := s.setup.Open(t)
	if again, heard := do(other, 1, heard.readings...); again != first || len(heard.readings) != 0 {
		t.Errorf("the first run came to %s, the second to %s, with %d more readings of the clock", first, again, len(heard.readings))
	}
	if again, _ := do(b, 2, heard.readings...); again == first {
		t.Errorf("another seed gives %s too", again)
	}
}

// frozenInterpreter tests a backend that can freeze.
func frozenInterpreter(t *testing.T, s *scene, b sandbox.Backend) {
	box := open(t, s, b)
	f, ok := box.(sandbox.Freezer)
	if !ok {
		t.Skip("this backend does not freeze")
	}
	run(t, box, sandbox.Program{ID: "frozen", Code: "x = 20"})
	for name, step := range map[string]func() error{"freezing twice": func() error { return errors.Join(f.Freeze(), f.Freeze()) }, "thawing": f.Thaw} {
		if err := errors.Join(step(), f.Thaw(), f.Thaw()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if out := run(t, box, sandbox.Program{ID: "frozen", Code: "x"}); string(out.Result) != "20" {
			t.Errorf("%s: x is %s %s", name, out.Result, out.Error)
		}
	}
	if err := errors.Join(f.Freeze(), box.Close()); err != nil {
		t.Error(err)
	}
	if f.Freeze() == nil || f.Thaw() == nil {
		t.Error("a closed sandbox was frozen and thawed")
	}
}

// ends tests the three ways in which the host ends a program.
func ends(t *testing.T, s *scene, b sandbox.Backend) {
	for name, end := range map[string]struct {
		end  func(context.CancelCauseFunc, sandbox.Sandbox)
		want sandbox.Status
	}{
		"time":         {func(c context.CancelCauseFunc, _ sandbox.Sandbox) { c(sandbox.ErrTimeout) }, sandbox.TimedOut},
		"cancellation": {func(c context.CancelCauseFunc, _ sandbox.Sandbox) { c(errors.New("nobody waits")) }, sandbox.Cancelled},
		"closing":      {func(_ context.CancelCauseFunc, x sandbox.Sandbox) { x.Close() }, sandbox.Crashed},
	} {
		box := open(t, s, b)
		ctx, cancel := context.WithCancelCause(t.Context())
		running := &waker{woken: make(chan struct{})}
		go func() { <-running.woken; end.end(cancel, box) }()
		started := time.Now()
		out, err := box.Run(ctx, sandbox.Program{ID: "end", Code: "print('begun')\nwhile True: pass"}, running)
		if err != nil || out.Status != end.want {
			t.Errorf("%s: %v %s, want %s", name, err, out.Status, end.want)
		}
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("%s took %s", name, took)
		}
		cancel(nil)
		if err := box.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
		if err := box.Close(); err != nil {
			t.Errorf("closing again: %v", err)
		}
	}
}

func manyAtOnce(t *testing.T, s *scene, b sandbox.Backend) {
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			spec := s.setup.Spec([]string{"alice", "mallory", "bystander"}[i%3], false)
			box, err := b.Open(t.Context(), spec)
			if err != nil {
				t.Errorf("opening: %v", err)
				return
			}
			defer box.Close()
			out, err := box.Run(t.Context(), sandbox.Program{ID: "many", Code: "import os\nopen('/tmp/mine', 'x').write('x')\nlen(os.listdir('/tmp'))"}, &ear{})
			if err != nil || string(out.Result) != "1" {
				t.Errorf("one of many: %v %s %s %s", err, out.Status, out.Result, out.Error)
			}
		})
	}
	wg.Wait()
}

// waker is a host that notices the first output.
type waker struct {
	ear
	once  sync.Once
	woken chan struct{}
}

func (w *waker) Output([]byte) error {
	w.once.Do(func() { close(w.woken) })
	return nil
}

func open(t *testing.T, s *scene, b sandbox.Backend) sandbox.Sandbox {
	t.Helper()
	box, err := b.Open(t.Context(), s.setup.Spec("mallory", false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })
	return box
}

func run(t *testing.T, box sandbox.Sandbox, p sandbox.Program) sandbox.Outcome {
	t.Helper()
	out, err := box.Run(t.Context(), p, &ear{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
