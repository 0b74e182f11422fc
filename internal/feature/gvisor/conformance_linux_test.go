package gvisor

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	h := newHost(t)
	h.cfg.Waiting = 1 // each case has limits of its own
	unknown := maps.Clone(exceptions)
	descriptors, _ := os.ReadDir("/proc/self/fd")
	t.Cleanup(func() { checkReleased(t, h, len(descriptors)) }) // after the backend is closed
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, c := range sandboxtest.Cases() {
		delete(unknown, c.Name)
	}
	if len(unknown) > 0 {
		t.Errorf("there are no cases %v", unknown)
	}
	sandboxtest.Run(t, sandboxtest.Setup{
		Open: func(t testing.TB, off ...string) sandbox.Backend {
			return (&host{t: t, roots: h.roots, cfg: h.cfg}).backend(nil)
		},
		Spec:       func(owner string, oneUID bool) sandbox.Spec { return h.spec(owner) },
		Dir:        func(spec sandbox.Spec, name string) string { return h.own(spec.UID, name) },
		Exceptions: exceptions,
		Leftovers: func(b sandbox.Backend) string {
			if now, _ := os.ReadFile("/proc/self/mountinfo"); string(now) != string(mounts) {
				return "the host's mounts changed: " + string(now)
			}
			return left(b.(*Backend))
		},
	})
}

// exceptions are the cases that gVisor cannot pass. The probe tests most of the reasons.
var exceptions = map[string]string{
	"list the root":     "/sys cannot be left out; it is an empty directory, in which mounts are prepared",
	"write to a device": "the devices are those of gVisor, and it has no Landlock",
	"execute a program other than the interpreter": "it has no Landlock: code can execute the files of glibc that have execute " +
		"permission",
	"devices of the host":   "/dev/fuse of gVisor cannot be left out; using it requires a capability",
	"higher priority":       "gVisor lets a process raise its priority, which has no effect on the host",
	"many files in /tmp":    "gVisor does not limit their number; their memory counts towards the memory limit",
	"disk in unnamed files": "gVisor has no O_TMPFILE: opening such a file fails",
	"many deleted files":    "gVisor has no O_TMPFILE: opening such a file fails",
	"exhausting descriptors and processes of a sibling": "a process of the attacker takes 4 MB of its memory: it reaches its limit of " +
		"memory before that of processes",
	"pages of a truncated file in sockets": "gVisor copies the bytes and keeps no pages, which the case counts",
	"descriptors shared with a sibling":    "two kernels use the same numbers for different files",
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

func TestProbeReportsWhatIsEnforcedAndWhatIsMissing(t *testing.T) {
	r := newHost(t).backend(nil).Probe(t.Context())
	if !r.Working {
		t.Errorf("not working: %+v", r)
	}
	for _, l := range r.Layers {
		t.Logf("%s: %s: %s", l.Name, l.State, l.Detail)
		if l.State == "failed" {
			t.Errorf("%s: %s", l.Name, l.Detail)
		}
	}
}
