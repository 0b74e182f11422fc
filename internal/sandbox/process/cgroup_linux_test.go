package process

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A worker must be in the group of every hierarchy before it runs code, or a limit does
// not apply to it.
func TestWorkerJoinsTheGroupOfEveryHierarchy(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	if b.groups.version == 0 {
		t.Skip("this host grants no cgroups: " + b.groups.why)
	}
	s, err := b.Open(t.Context(), h.spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := s.(*instance).w
	pid := strconv.Itoa(pidOf(w.fd()))
	for _, dir := range w.group.dirs {
		procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(strings.Fields(string(procs)), pid) {
			t.Errorf("worker %s is not in %s, which has %q", pid, dir, procs)
		}
	}
}
