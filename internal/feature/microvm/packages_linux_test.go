//go:build amd64

package microvm

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Guests have the packages, and the snapshot those that can be preloaded.
func TestPackages(t *testing.T) {
	longtest.Skip(t)
	h := newHost(t)
	h.cfg.Packages = t.TempDir()
	for name, text := range map[string]string{
		"json.py":          "mine = True\n",
		"deep/nested.py":   "def fail(): return 1 / 0\n",
		"slow/__init__.py": "import os\npid = os.getpid()\nkept = open('/tmp/kept', 'w')\n",
		"raises.py":        "import slow\nraise OSError('no such thing')\n",
		"crashes.py":       "import os\nos._exit(3)\n",
		"hangs.py":         "import time\nwhile True: time.sleep(1)\n",
	} {
		path := filepath.Join(h.cfg.Packages, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	var log logtest.Log
	h.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	h.cfg.Preload, h.cfg.importTimeout = []string{"raises", "slow", "missing", "crashes", "hangs"}, 10*time.Second
	b := h.backend()
	for _, words := range []string{
		"module=raises why=\"OSError: no such thing", "module=missing why=\"ModuleNotFoundError",
		"module=crashes why=\"its import ended the interpreter", "module=hangs why=\"its import took longer than 10 seconds",
	} {
		if !strings.Contains(log.String(), words) {
			t.Errorf("the log lacks %s:\n%s", words, log.String())
		}
	}
	s, err := b.Open(t.Context(), h.spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for code, want := range map[string]string{
		"import sys, os\nthere = 'slow' in sys.modules\nimport slow\n[there, slow.pid != os.getpid(), os.listdir('/tmp')]": `[true,true,[]]`,
		"import json\nhasattr(json, 'mine')": "false",
		"import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import deep.nested; print(1)'], capture_output=True, " +
			"text=True).stdout": `"1\n"`,
	} {
		out, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: code}, sandbox.NoHost{})
		if err != nil || string(out.Result) != want {
			t.Errorf("%s: %v %+v", code, err, out)
		}
	}
	out, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: "import deep.nested\ndeep.nested.fail()"}, sandbox.NoHost{})
	if err != nil || !strings.Contains(out.Traceback, `"deep/nested.py", line 1`) {
		t.Errorf("%v: the traceback does not name the package's file by its place: %s", err, out.Traceback)
	}
}
