package process

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// packages shows a directory with these files to code.
func (h *host) packages(files map[string]string) {
	h.t.Helper()
	h.cfg.Packages = filepath.Join(h.roots, "packages")
	for name, text := range files {
		path := filepath.Join(h.cfg.Packages, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			h.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o444); err != nil {
			h.t.Fatal(err)
		}
	}
}

// wantResult fails unless code completed with that JSON.
func wantResult(t *testing.T, out sandbox.Outcome, want string) {
	t.Helper()
	if out.Status != sandbox.Completed || string(out.Result) != want {
		t.Errorf("%s %s %s %s, want %s", out.Status, out.Result, out.Error, out.Traceback, want)
	}
}

func TestPackagesOrderOnPath(t *testing.T) {
	h := newHost(t)
	h.packages(map[string]string{
		"json.py":        "mine = True\n",
		"both.py":        "whose = 'package'\n",
		"deep/nested.py": "def fail(): return 1 / 0\n",
	})
	spec := h.spec("a")
	planted := filepath.Join(h.cfg.Roots["workspaces"], "a", "both.py")
	if err := os.WriteFile(planted, []byte("whose = 'workspace'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := h.backend(nil)
	wantResult(t, h.run(b, spec, "import json, both\n[hasattr(json, 'mine'), both.whose]"), `[false,"package"]`)
	out := h.run(b, spec, "import deep.nested\ndeep.nested.fail()")
	if !strings.Contains(out.Traceback, `"deep/nested.py", line 1`) {
		t.Errorf("the traceback does not name the package's file by its place: %s", out.Traceback)
	}
}

func TestPreloadedModuleIsImported(t *testing.T) {
	h := newHost(t)
	h.packages(map[string]string{"slow/__init__.py": `
import tempfile
with tempfile.TemporaryFile() as f: f.write(b"x")  # there is a place to write
kept = open("/tmp/kept", "w")
`})
	b := h.backend(func(c *Config) { c.Preload = []string{"slow"} })
	wantResult(t, h.run(b, h.spec("a"), `
import sys, os
there = "slow" in sys.modules
import slow
[there, os.path.basename(slow.kept.name), os.listdir("/tmp")]`), `[true,"kept",[]]`)
}

func TestFailingPreloadModuleIsSkipped(t *testing.T) {
	h := newHost(t)
	h.packages(map[string]string{
		"good.py":    "there = 1\n",
		"raises.py":  "import good\nraise OSError('no such thing')\n",
		"crashes.py": "import os\nos._exit(3)\n",
		"threads.py": "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
		"leaves.py":  "raise SystemExit\n",
	})
	var log logtest.Log
	b := h.backend(func(c *Config) {
		c.Preload = []string{"raises", "good", "missing", "crashes", "threads", "leaves"}
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	wantResult(t, h.run(b, h.spec("a"), `
import sys
sorted({"raises", "good", "missing", "crashes", "threads", "leaves"} & set(sys.modules))`), `["good"]`)
	for _, words := range []string{
		"module=raises why=\"OSError: no such thing", "module=missing why=\"ModuleNotFoundError",
		"module=crashes why=\"its import ended the interpreter", "module=threads why=\"it starts a thread", "module=leaves why=SystemExit",
	} {
		if !strings.Contains(log.String(), words) {
			t.Errorf("the log lacks %s:\n%s", words, log.String())
		}
	}
	if strings.Contains(log.String(), "module=good") {
		t.Errorf("good is skipped too:\n%s", log.String())
	}
	if out := h.run(b, h.spec("a"), "import crashes"); out.Status != sandbox.Crashed {
		t.Errorf("code cannot import what is left out: %+v", out)
	}
	wantResult(t, h.run(b, h.spec("a"), "1 + 1"), "2")
}

func TestHangingPreloadModuleIsSkipped(t *testing.T) {
	h := newHost(t)
	h.packages(map[string]string{"hangs.py": "import time\nwhile True: time.sleep(1)\n"})
	var log logtest.Log
	b := h.backend(func(c *Config) {
		c.Preload, c.importTimeout = []string{"hangs"}, 50*time.Millisecond
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	wantResult(t, h.run(b, h.spec("a"), "1 + 1"), "2")
	if !strings.Contains(log.String(), `module=hangs why="its import took longer than 50ms"`) {
		t.Errorf("unexpected log: %s", log.String())
	}
}

func TestPreloadDoesNotCountTowardsMemoryLimit(t *testing.T) {
	h := newHost(t)
	h.packages(map[string]string{"large.py": "kept = b'x' * (400 << 20)\n"})
	const code = "kept = b'x' * (300 << 20)\nlen(kept) >> 20" // in use: zeros would only be reserved
	ahead := h.backend(func(c *Config) { c.Preload = []string{"large"} })
	s, err := ahead.Open(t.Context(), h.spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: code}, sandbox.NoHost{})
	if err != nil {
		t.Fatal(err)
	}
	wantResult(t, out, "300")
	w := s.(*instance).w
	if got := memoryOfAll([]memoryUse{memoryOf(w.hostPID())}, w.inherited.resident, &kernelMemory{limit: 500 << 20}, false).
		total(); got < 290<<20 || got > 330<<20 {
		t.Errorf("%d MB are in use, want about 300", got>>20)
	}
	if out := h.run(ahead, h.spec("a"), "bytes(700 << 20)"); out.Limit != sandbox.LimitMemory {
		t.Errorf("the limit on memory is gone: %+v", out)
	}
	if out := h.run(h.backend(nil), h.spec("a"), "import large\n"+code); out.Limit != sandbox.LimitMemory {
		t.Errorf("what code imports itself does not count: %+v", out)
	}
}

func TestPythonStartedByCodeHasPackages(t *testing.T) {
	h := newHost(t)
	h.packages(map[string]string{"good.py": "there = 1\n"})
	const code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import good; print(good.there)'], capture_output=True, " +
		"text=True).stdout"
	wantResult(t, h.run(h.backend(nil), h.spec("a"), code), `"1\n"`)
}
