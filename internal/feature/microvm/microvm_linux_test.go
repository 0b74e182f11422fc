//go:build amd64

package microvm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// The tests emulate the processor, since few machines that run them have KVM. MICROVM_KERNEL
// is the path of a kernel that is not in /boot.

// scratch and tests live as long as the test binary.
var (
	scratch string
	tests   context.Context
)

func TestMain(m *testing.M) {
	if config := os.Getenv(daemonVariable); config != "" {
		beDaemon(config)
		return
	}
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "microvm-test-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(scratch)
		var cancel context.CancelFunc
		tests, cancel = context.WithCancel(context.Background())
		defer cancel()
		return m.Run()
	}())
}

// interpreter installs CPython once for all tests of this package.
var interpreter = sync.OnceValues(func() (*python.Installation, error) {
	return python.Install(tests, python.Config{Dir: filepath.Join(scratch, "python"), Overlay: worker.Python()})
})

// host is a place for backends and their tenants.
type host struct {
	t     testing.TB
	roots string // holds workspaces/<owner>
	cfg   Config
}

func newHost(t testing.TB) *host {
	t.Helper()
	in, err := interpreter()
	if err != nil {
		t.Fatal(err)
	}
	libs, err := in.SystemLibraries()
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, roots: t.TempDir()}
	h.cfg = Config{Accel: TCG, Kernel: os.Getenv("MICROVM_KERNEL"), Config: sandbox.Config{
		Python: in.Dir(), Libraries: libs,
		Roots: map[string]string{"workspaces": filepath.Join(h.roots, "workspaces")}, Usage: usage,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
	if err := os.Mkdir(h.cfg.Roots["workspaces"], 0o755); err != nil {
		t.Fatal(err)
	}
	return h
}

// usage measures a workspace as the daemon does.
func usage(ctx context.Context, dir string) (bytes, files int64, err error) {
	u, err := workspace.Measure(ctx, dir)
	return u.Bytes, u.Files + u.Dirs, err
}

// backend starts one, or skips the test (fails it, if REQUIRE_MICROVM is set) where this
// machine cannot have one.
func (h *host) backend() *Backend {
	h.t.Helper()
	b, err := New(h.t.Context(), h.cfg)
	if err != nil {
		if os.Getenv("REQUIRE_MICROVM") != "" {
			h.t.Fatal(err)
		}
		h.t.Skip(err)
	}
	h.t.Cleanup(func() { b.Close() })
	return b
}

// spec is a sandbox of owner over a workspace of its own.
func (h *host) spec(owner string) sandbox.Spec {
	h.t.Helper()
	s := sandbox.Spec{Owner: owner, Mounts: []sandbox.Mount{{Target: "/workspace", Root: "workspaces", Name: owner}}}
	dir := filepath.Join(h.cfg.Roots["workspaces"], owner)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		s.UID = process.FirstUID + int(owner[0])
		if err := os.Chown(dir, s.UID, s.UID); err != nil {
			h.t.Fatal(err)
		}
	}
	return s
}

// run opens a sandbox for spec and runs code in it.
func (h *host) run(b *Backend, spec sandbox.Spec, code string) sandbox.Outcome {
	h.t.Helper()
	s, err := b.Open(h.t.Context(), spec)
	if err != nil {
		h.t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(h.t.Context(), sandbox.Program{ID: "test", Code: code}, sandbox.NoHost{})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

func TestRunInVirtualMachine(t *testing.T) {
	h := newHost(t)
	b := h.backend()
	opened := time.Now()
	spec := h.spec("a")
	s, err := b.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("restored in %s", time.Since(opened))
	defer s.Close()
	number := 0
	run := func(code string) sandbox.Outcome {
		number++
		out, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: code}, sandbox.NoHost{})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s %s %s %s %+v", code, out.Status, out.Result, out.Error, out.Stderr, out.Usage)
		return out
	}
	for code, want := range map[string]string{
		"1+1": "2",
		"import os; os.write(2, b'err'); open('f', 'w').write('from the guest'); [os.uname().sysname, os.listdir('/workspace')]": `["Linux",["f"]]`,
		"import time; abs(time.time() - " + fmt.Sprint(time.Now().Unix()) + ") < 60":                                             "true",
	} {
		if out := run(code); string(out.Result) != want {
			t.Errorf("%s: %s %s %s %s", code, out.Status, out.Result, out.Error, out.Stderr)
		}
	}
	if got, err := os.ReadFile(filepath.Join(h.cfg.Roots["workspaces"], "a", "f")); string(got) != "from the guest" {
		t.Errorf("the workspace has %q %v", got, err)
	}
	meter := s.(sandbox.Meter)
	used := func(code string) time.Duration {
		before := meter.CPUTime()
		run(code)
		return meter.CPUTime() - before
	}
	// On a busy host, the guest takes the time in which it waits for a processor as used.
	waits, computes := used("import time; time.sleep(1)"), used("import time\nend = time.process_time() + 1\nwhile time.process_time() < "+
		"end: pass")
	if t.Logf("%s of processor time while code waits for a second, %s while it computes", waits,
		computes); computes < 50*time.Millisecond || waits >= computes {
		t.Errorf("code that waits has used %s, and code that computes %s", waits, computes)
	}
	f := s.(sandbox.Freezer)
	if err := errors.Join(f.Freeze(), f.Freeze(), f.Thaw(), f.Thaw()); err != nil {
		t.Error(err)
	}
	if out := run("import os; os._exit(3)"); out.Status != sandbox.Crashed || !strings.Contains(out.Error, "exited with status 3") {
		t.Errorf("%s %s", out.Status, out.Error)
	}
	// A second guest of the same snapshot draws other random numbers.
	const draw = "import os, random, uuid; [os.urandom(8).hex(), random.random(), str(uuid.uuid4())]"
	first, second := h.run(b, spec, draw), h.run(b, spec, draw)
	if len(first.Result) == 0 || string(first.Result) == string(second.Result) {
		t.Errorf("random numbers %s and %s", first.Result, second.Result)
	}
	if out := h.run(b, spec, "[bytes(50 << 20) for _ in range(20)]"); out.Limit != sandbox.LimitMemory {
		t.Errorf("memory: %s %s %s", out.Status, out.Limit, out.Error)
	}
	report := b.Probe(t.Context())
	for _, l := range report.Layers {
		t.Logf("%s: %s: %s", l.Name, l.State, l.Detail)
		if l.State == "failed" {
			t.Errorf("%s: %s", l.Name, l.Detail)
		}
	}
	if first := report.Layers[0]; !report.Working || first.State != "soft" || !strings.Contains(first.Detail, "NOT AN ISOLATION BOUNDARY") {
		t.Errorf("working is %t, the first layer %+v", report.Working, first)
	}
}

// TestKVM runs code in guests of the processor's virtualization, where this machine has it. That of a
// virtual machine may be incomplete, but QEMU starts and opens it.
func TestKVM(t *testing.T) {
	h := newHost(t)
	h.cfg.Accel = KVM
	if f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err != nil {
		t.Skip(err)
	} else {
		f.Close()
	}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip(err)
	}
	b, err := New(t.Context(), h.cfg)
	if err != nil {
		if text := err.Error(); strings.Contains(text, "fork/exec") || strings.Contains(text, "ermission denied") || strings.Contains(text,
			"not permitted") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	defer b.Close()
	for _, owner := range []string{"a", "b"} {
		if out := h.run(b, h.spec(owner), "6*7"); string(out.Result) != "42" {
			t.Errorf("%+v", out)
		}
	}
}

// A group of the host that the namespaces have already, such as 0, is not mapped twice.
func TestNamespacesWithAnyGroup(t *testing.T) {
	nobody, err := process.NobodyUID()
	if err != nil {
		t.Fatal(err)
	}
	for _, groups := range [][]int{{0}, {nobody}, {65_533}, {0, 65_533, 65_533}} {
		attr, err := namespaces(groups)
		if err != nil {
			t.Fatal(err)
		}
		cmd := &exec.Cmd{Path: "/bin/true", SysProcAttr: attr}
		if err := cmd.Run(); err != nil {
			t.Errorf("%v: %v", groups, err)
		}
	}
}
