package gvisor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	h := newHost(t)
	descriptors, _ := os.ReadDir("/proc/self/fd")
	t.Cleanup(func() { checkReleased(t, h, len(descriptors)) }) // after the backend is closed
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	sandboxtest.Run(t, sandboxtest.Setup{
		Open: func(t testing.TB, off ...string) sandbox.Backend {
			return (&host{t: t, roots: h.roots, cfg: h.cfg}).backend(nil)
		},
		Spec: func(owner string, oneUID bool) sandbox.Spec { return h.spec(owner) },
		Dir:  func(spec sandbox.Spec, name string) string { return h.own(spec.UID, name) },
		Leftovers: func(b sandbox.Backend) string {
			if now, _ := os.ReadFile("/proc/self/mountinfo"); string(now) != string(mounts) {
				return "the host's mounts changed: " + string(now)
			}
			return left(b.(*Backend))
		},
	})
}

// checkReleased reports resources that a closed backend did not release.
func checkReleased(t *testing.T, h *host, descriptors int) {
	if now, _ := os.ReadDir("/proc/self/fd"); len(now) > descriptors {
		t.Errorf("%d descriptors are open, before the suite %d", len(now), descriptors)
	}
	if pids := process.Descendants(os.Getpid()); len(pids) > 1 {
		t.Errorf("processes are left: %v", pids[1:])
	}
	if files, _ := filepath.Glob(filepath.Join(h.cfg.State, "*")); len(files) > 0 {
		t.Errorf("files are left in the state directory: %v", files)
	}
}
