//go:build amd64

package microvm

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/sandboxtest"
)

// exceptions are the cases that this backend does not pass. Doctor reports the causes.
var exceptions = map[string]string{
	"disk in unnamed files":             "virtiofs has no unnamed files: opening one fails",
	"many deleted files":                "virtiofs has no unnamed files: opening one fails",
	"descriptors shared with a sibling": "two kernels use the same numbers for different files",
}

func TestConformance(t *testing.T) {
	longtest.Skip(t) // hundreds of guests
	unknown := maps.Clone(exceptions)
	for _, c := range sandboxtest.Cases() {
		delete(unknown, c.Name)
	}
	if len(unknown) > 0 {
		t.Errorf("there are no cases %v", unknown)
	}
	h := newHost(t)
	descriptors, _ := os.ReadDir("/proc/self/fd")
	t.Cleanup(func() {
		if now, _ := os.ReadDir("/proc/self/fd"); len(now) > len(descriptors) {
			t.Errorf("%d descriptors are open, before the suite %d", len(now), len(descriptors))
		}
		if left := leftovers(h); left != "" {
			t.Error(left)
		}
	})
	dir := func(name string) string { return filepath.Join(h.cfg.Roots["workspaces"], name) }
	sandboxtest.Run(t, sandboxtest.Setup{
		Open: func(t testing.TB, off ...string) sandbox.Backend {
			return (&host{t: t, roots: h.roots, cfg: h.cfg}).backend()
		},
		Spec: func(owner string, _ bool) sandbox.Spec { return h.spec(owner) },
		Dir: func(spec sandbox.Spec, name string) string {
			_ = os.Mkdir(dir(name), 0o700)
			if spec.UID != 0 {
				if err := os.Chown(dir(name), spec.UID, spec.UID); err != nil {
					t.Fatal(err)
				}
			}
			return dir(name)
		},
		Leftovers:  func(sandbox.Backend) string { return leftovers(h) },
		Slowness:   20, // of TCG on a busy machine
		Exceptions: exceptions,
	})
}

// leftovers describes processes and mounts of guests. They have no files.
func leftovers(h *host) string {
	children, _ := filepath.Glob("/proc/self/task/*/children")
	for _, name := range children {
		if pids, _ := os.ReadFile(name); len(pids) > 0 {
			return "processes " + string(pids)
		}
	}
	if mounts, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(mounts), h.roots) {
		return "mounts of " + h.roots
	}
	return ""
}
