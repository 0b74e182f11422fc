package process

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// A preloaded module that makes workers skip a step of their lockdown gets no tenant: the daemon checks
// them from outside.
func TestPreloadedModuleCannotSkipLockdown(t *testing.T) {
	steps := map[string]string{
		"capabilities":  "lockdown.drop_capabilities = lambda *a, **k: None",
		"seccomp":       "lockdown.filter_ = lambda *a: None",
		"limits":        "lockdown.set_rlimits = lambda limits: None",
		"a wider limit": "import resource; f = lockdown.set_rlimits; lockdown.set_rlimits = lambda limits: f(limits | {'NOFILE': 1024})",
		"a pidfd": "import os; from sandpiper import kernel; f = kernel.call; kernel.call = lambda name, *a: f(name, " +
			"*((os.getpid(), 0) if name == 'pidfd_open' else a))",
		"a descriptor": "from sandpiper import kernel; f = kernel.call; kernel.call = lambda name, *a: 0 if name == 'close_range' else " +
			"f(name, *a)",
	}
	if tenantUIDs(t) > 0 {
		steps["uid"] = "lockdown.become = lambda uid: None"
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.packages(map[string]string{"evil.py": "from sandpiper import lockdown\nlockdown.probe = lambda off: None\n" + step + "\n"})
			b := h.backend(func(c *Config) { c.Preload = []string{"evil"} })
			s, err := b.Open(t.Context(), h.spec("a"))
			if err == nil {
				s.Close()
				t.Fatal("a worker that is not locked down was opened")
			}
			if name != "a pidfd" && name != "uid" && !strings.Contains(err.Error(), "not locked down") { // with these, another step fails
				t.Error(err)
			}
		})
	}
}

// A module is not preloaded if it leaves what workers of all tenants would share, though it hides that in the interpreter.
func TestPreloadedModuleLeavesNothingShared(t *testing.T) {
	h := newHost(t)
	h.packages(map[string]string{
		"memory.py": "import mmap\nkept = mmap.mmap(-1, 4096)\n",
		"threads.py": "import threading, time\nfrom sandpiper import kernel\nkernel.attempt = lambda *a: " +
			"0\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
	})
	var log logtest.Log
	b := h.backend(func(c *Config) {
		c.Preload, c.Log = []string{"memory", "threads"}, slog.New(slog.NewTextHandler(&log, nil))
	})
	wantResult(t, h.run(b, h.spec("a"), "import sys\n[m for m in ('memory', 'threads') if m in sys.modules]"), "[]")
	for _, words := range []string{"module=memory why=\"it maps memory that all workers would share",
		"module=threads why=\"it starts a thread"} {
		if !strings.Contains(log.String(), words) {
			t.Errorf("the log lacks %s:\n%s", words, log.String())
		}
	}
}

func TestWorkersOutliveZygoteWithPreload(t *testing.T) {
	h := newHost(t)
	h.packages(map[string]string{"good.py": "there = 1\n"})
	b := h.backend(func(c *Config) { c.Preload, c.OwnNamespaces = []string{"good"}, true })
	s, err := b.Open(t.Context(), h.spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	before := b.zygoteNow()
	before.close()
	wantResult(t, h.run(b, h.spec("b"), "import good; good.there"), "1")
	if b.zygoteNow() == before {
		t.Error("the zygote was not replaced")
	}
	out, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: "import good; good.there"}, sandbox.NoHost{})
	if err != nil {
		t.Fatal(err)
	}
	wantResult(t, out, "1")
	s.Close()
}
