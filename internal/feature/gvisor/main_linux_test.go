package gvisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// scratch lives as long as the test binary.
var (
	scratch string
	ctx     = context.Background()
)

func TestMain(m *testing.M) {
	if config := os.Getenv("GVISOR_TEST_DAEMON"); config != "" {
		beDaemon(config)
	}
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "gv-"); err != nil { // short: it holds sockets
			panic(err)
		}
		defer os.RemoveAll(scratch)
		return m.Run()
	}())
}

var interpreter = sync.OnceValues(func() (*python.Installation, error) {
	return python.Install(ctx, python.Config{Dir: filepath.Join(scratch, "python"), Overlay: worker.Python()})
})

// host is a place for backends and their tenants.
type host struct {
	t     testing.TB
	roots string // holds workspaces/<owner>
	cfg   Config
}

// newHost prepares one. RUNSC is the path of runsc, if it is not on PATH.
func newHost(t testing.TB) *host {
	t.Helper()
	runsc := os.Getenv("RUNSC")
	if _, err := findProgram(t.Context(), runsc); err != nil {
		unavailable(t, err)
	}
	in, err := interpreter()
	if err != nil {
		t.Fatal(err)
	}
	libs, err := in.SystemLibraries()
	if err != nil {
		t.Fatal(err)
	}
	roots, err := os.MkdirTemp(scratch, "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(roots) })
	h := &host{t: t, roots: roots}
	h.cfg = Config{Runsc: runsc, Config: sandbox.Config{
		Python: in.Dir(), Libraries: libs, State: filepath.Join(roots, "state"),
		Roots: map[string]string{"workspaces": filepath.Join(roots, "workspaces")}, Usage: usage,
	}}
	if err := os.Mkdir(h.cfg.Roots["workspaces"], 0o755); err != nil {
		t.Fatal(err)
	}
	return h
}

// unavailable skips a test, or fails it if REQUIRE_GVISOR is set.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("REQUIRE_GVISOR") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// usage measures a workspace as the daemon does.
func usage(ctx context.Context, dir string) (bytes, files int64, err error) {
	u, err := workspace.Measure(ctx, dir)
	return u.Bytes, u.Files + u.Dirs, err
}

// backend starts one; change may alter its configuration.
func (h *host) backend(change func(*Config)) *Backend {
	h.t.Helper()
	cfg := h.cfg
	if change != nil {
		change(&cfg)
	}
	b, err := New(h.t.Context(), cfg)
	if err != nil {
		unavailable(h.t, err)
	}
	h.t.Cleanup(func() { b.Close() })
	return b
}

// spec is a sandbox of owner over a workspace of its own.
func (h *host) spec(owner string) sandbox.Spec {
	h.t.Helper()
	s := sandbox.Spec{Owner: owner, Mounts: []sandbox.Mount{{Target: "/workspace", Root: "workspaces", Name: owner}}}
	if nobody, err := process.NobodyUID(); err != nil {
		h.t.Fatal(err)
	} else if nobody != 0 {
		s.UID = process.FirstUID + int(owner[0])
	}
	h.own(s.UID, owner)
	return s
}

// own creates a directory of the uid.
func (h *host) own(uid int, name string) string {
	h.t.Helper()
	dir := filepath.Join(h.cfg.Roots["workspaces"], name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	if uid != 0 {
		if err := os.Chown(dir, uid, uid); err != nil {
			h.t.Fatal(err)
		}
	}
	return dir
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

func TestRunReportsCauseOfDeath(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	for _, c := range []struct {
		name, code string
		status     sandbox.Status
		limit      string
		says       string
	}{
		{"result", "1+1", sandbox.Completed, "", ""},
		{"exit", "import os; os._exit(3)", sandbox.Crashed, "", "exited with status 3"},
		{"segmentation fault", "import ctypes; ctypes.string_at(0)", sandbox.Crashed, "", "signal 11"},
		{"memory of one allocation", "bytearray(10**9)", sandbox.Raised, sandbox.LimitMemory, "memory"},
	} {
		out := h.run(b, h.spec("a"), c.code)
		if out.Status != c.status || out.Limit != c.limit || !strings.Contains(out.Error, c.says) {
			t.Errorf("%s: %s %q %q, want %s %q …%s…", c.name, out.Status, out.Limit, out.Error, c.status, c.limit, c.says)
		}
	}
}

func TestMountInAWorkspaceKeepsItsFlags(t *testing.T) {
	h := newHost(t)
	spec := h.spec("a")
	h.own(spec.UID, "a/skills")
	h.own(spec.UID, "other")
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Target: "/workspace/skills", Root: "workspaces", Name: "other", ReadOnly: true})
	out := h.run(h.backend(nil), spec, "import gc, os\n[os.statvfs(p).f_flag & 11 for p in ('/workspace', '/workspace/skills')] + "+
		"[gc.isenabled()]")
	if string(out.Result) != "[10,11,true]" { // nosuid and noexec; and read-only
		t.Errorf("%s %s", out.Result, out.Error)
	}
}

// Memory that the watch does not measure in time is limited by a cgroup.
func TestCgroupLimitsMemory(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	if version, why := b.groups.Version(); version == 0 {
		if os.Geteuid() == 0 && os.Getenv("REQUIRE_ROOT") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	spec := h.spec("a")
	spec.Limits.MemoryBytes = 100 << 20
	s, err := b.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.(*instance).limits.MemoryBytes = 1 << 40 // of the watch
	out, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: `
import os, time
for _ in range(5):
    if os.fork() == 0:
        kept = os.urandom(1 << 20) * 90
        time.sleep(5)
        os._exit(0)
time.sleep(5)`}, sandbox.NoHost{})
	if err != nil || out.Status != sandbox.OverLimit || out.Limit != sandbox.LimitMemory {
		t.Errorf("%v %+v", err, out)
	}
}

// left describes what b has not released, other than the sandboxes of its pool.
func left(b *Backend) string {
	b.mu.Lock()
	live := len(b.live)
	b.mu.Unlock()
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	waiting, starting := 0, 0
	if b.pool.filling {
		starting = 1
	}
	for _, list := range b.pool.ready {
		waiting += len(list)
	}
	entries, _ := os.ReadDir(b.dir)
	if live > waiting+starting || len(entries) > waiting+starting+1 { // and the root directory
		return fmt.Sprintf("%d sandboxes and %d entries in the directory for %d waiting sandboxes and %d that are started", live,
			len(entries), waiting, starting)
	}
	return ""
}

func TestPackagesAndPreload(t *testing.T) {
	h := newHost(t)
	packages := h.own(0, "packages")
	if err := os.Chmod(packages, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"present.py": "here = True\n", "broken.py": "1/0\n"} {
		if err := os.WriteFile(filepath.Join(packages, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var log logtest.Log
	b := h.backend(func(c *Config) {
		c.Packages, c.Preload, c.Log = packages, []string{"present", "broken"}, slog.New(slog.NewTextHandler(&log, nil))
	})
	out := h.run(b, h.spec("a"), "import sys\nloaded = [n in sys.modules for n in ('present', 'broken')]\nimport present\n[loaded, "+
		"present.here]")
	if string(out.Result) != "[[true,false],true]" || out.Stderr != "" {
		t.Errorf("%+v", out)
	}
	if text := log.String(); !strings.Contains(text, "preloading broken: ZeroDivisionError") {
		t.Errorf("the log has no warning: %s", text)
	}
}

// A preloaded module has the privileges of code.
func TestPreloadedModuleHasPrivilegesOfCode(t *testing.T) {
	h := newHost(t)
	packages := h.own(0, "packages")
	const evil = `
import errno, os, socket
from sandpiper import kernel

def attempts():
    found = {}
    for name, f in {
        "mount": lambda: kernel.call("mount", b"tmpfs\0", b"/tmp\0", b"tmpfs\0", 0, None),
        "user namespace": lambda: kernel.call("unshare", 0x10000000), "mount namespace": lambda: kernel.call("unshare", 0x20000),
        "root": lambda: kernel.call("setresuid", 0, 0, 0), "groups": lambda: kernel.call("setgroups", 0, None),
        "ptrace": lambda: kernel.call("ptrace", 16, 1, 0, 0), "socket": lambda: socket.socket(), "chown": lambda: os.chown("/", 1, 1),
        "root directory": lambda: open("/planted", "w"), "packages": lambda: open("/packages/planted", "w"),
    }.items():
        try:
            f()
        except OSError as e:
            found[name] = errno.errorcode[e.errno]
        else:
            found[name] = "succeeded"
    return found

at_import = attempts()
`
	if err := errors.Join(os.Chmod(packages, 0o755), os.WriteFile(filepath.Join(packages, "evil.py"), []byte(evil), 0o644)); err != nil {
		t.Fatal(err)
	}
	b := h.backend(func(c *Config) { c.Packages, c.Preload = packages, []string{"evil"} })
	out := h.run(b, h.spec("a"), "import evil\nnow = evil.attempts()\n[evil.at_import == now, 'succeeded' in now.values(), "+
		"evil.at_import, now]")
	if !strings.HasPrefix(string(out.Result), "[true,false,") {
		t.Errorf("%+v %s", out, out.Result)
	}
}

// A program that starts processes is not disturbed by being frozen.
func TestFreezeDisturbsNoProcess(t *testing.T) {
	h := newHost(t)
	s, err := h.backend(nil).Open(t.Context(), h.spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: `
import os, time
ends = []
began = time.monotonic()
while time.monotonic() < began + 4:
    pid = os.fork()
    if pid == 0:
        for n in range(20): open(f"/workspace/{n}", "w").close()
        os._exit(0)
    ends.append(os.waitpid(pid, 0)[1])
[any(ends), len(ends) > 5]`}, sandbox.NoHost{})
		if err != nil || string(out.Result) != "[false,true]" {
			t.Errorf("%v %+v", err, out)
		}
	}()
	f := s.(sandbox.Freezer)
	for n := 0; ; n++ {
		select {
		case <-done:
			if n < 5 {
				t.Errorf("frozen only %d times", n)
			}
			return
		default:
		}
		if err := f.Freeze(); err != nil {
			t.Fatal(err)
		}
		if err := f.Thaw(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
