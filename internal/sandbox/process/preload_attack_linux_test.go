package process

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// attackPackage shows the attacks of testdata/preload_attack.py to code as the module evil.
func (h *host) attackPackage() {
	text := read("testdata/preload_attack.py")
	h.packages(map[string]string{"evil.py": strings.ReplaceAll(text, "HOST_DIR", fmt.Sprintf("%q", h.roots))})
}

// resultsOf returns a dictionary of the module evil, as code sees it.
func (h *host) resultsOf(b *Backend, name string) map[string]string {
	h.t.Helper()
	out := h.run(b, h.spec("a"), "import evil\nevil."+name)
	var m map[string]string
	if out.Status != sandbox.Completed || json.Unmarshal(out.Result, &m) != nil || len(m) == 0 {
		h.t.Fatalf("%s %s %s %s", out.Status, out.Result, out.Error, out.Traceback)
	}
	return m
}

// A preloaded module can do nothing at its import, or in a worker before its lockdown, that code cannot do.
func TestPreloadedModuleHasPrivilegesOfWorker(t *testing.T) {
	h := newHost(t)
	h.attackPackage()
	ahead := h.backend(func(c *Config) { c.Preload = []string{"evil"} })
	code := h.resultsOf(h.backend(nil), "attempts()")
	for name, result := range code {
		if result == "succeeded" {
			t.Errorf("code in a worker: %s succeeded", name)
		}
	}
	ids, err := TenantUIDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range []string{"FOUND", "BOUND"} {
		for name, result := range h.resultsOf(ahead, found) {
			call, args, _ := strings.Cut(name, " ")
			// in a user namespace that gives nothing
			own := found == "BOUND" && slices.Contains([]string{"setresuid", "setresgid", "setgroups", "capset"}, call)
			same := ids == 0 && strings.HasPrefix(call, "setres") && args == "0 0 0" // the ids that it has
			if result == "succeeded" && code[name] != result && !own && !same {
				t.Errorf("%s: %s succeeded; code gets %s", found, name, code[name])
			}
		}
	}
}
