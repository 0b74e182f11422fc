package process

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

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

// newHost prepares one, or skips the test (fails it, if REQUIRE_SANDBOX is
// "process") where this machine cannot have a sandbox.
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
	h.cfg = Config{Config: sandbox.Config{
		Python: in.Dir(), Libraries: libs, State: filepath.Join(h.roots, "state"),
		Roots: map[string]string{"workspaces": filepath.Join(h.roots, "workspaces")}, Usage: usage,
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

// backend starts one; change may alter its configuration.
func (h *host) backend(change func(*Config)) *Backend {
	h.t.Helper()
	cfg := h.cfg
	if change != nil {
		change(&cfg)
	}
	b, err := New(cfg)
	if err != nil {
		if os.Getenv("REQUIRE_SANDBOX") == "process" {
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
	if tenantUIDs(h.t) > 0 {
		s.UID = FirstUID + int(owner[0])
		if err := os.Chown(dir, s.UID, s.UID); err != nil {
			h.t.Fatal(err)
		}
	}
	return s
}

func tenantUIDs(t testing.TB) int {
	t.Helper()
	ids, err := TenantUIDs()
	if err != nil {
		t.Fatal(err)
	}
	return ids
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

func TestProbeReportsAllLayers(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r := h.backend(nil).Probe(t.Context())
	if !r.Working {
		t.Errorf("not working: %+v", r)
	}
	for _, l := range r.Layers {
		if l.State == "failed" {
			t.Errorf("%s: %s", l.Name, l.Detail)
		}
	}
}

func TestProbeReportsMissingLayer(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	h := newHost(t)
	for _, off := range longtest.Rows([]string{"seccomp", "landlock", "net", "pid", "rlimits", "no_new_privs", "capabilities"}, 0, 3) {
		b := h.backend(func(cfg *Config) { cfg.Disabled = []string{off} })
		if r := b.Probe(t.Context()); r.Working {
			t.Errorf("with %s off the probe found nothing: %+v", off, r.Layers)
		}
		b.Close()
	}
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
