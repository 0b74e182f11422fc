package process

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
)

// testdata/load.py makes the system calls of ordinary Python. All of it must work in a
// sandbox without an unlisted call, which kills the process here. OTHER_LIBC names a root directory with another glibc to
// try it with, such as an unpacked package, and OTHER_PACKAGES a directory of
// Python packages that the load then uses. Without the latter, REQUIRE_PACKAGES installs some.

func TestLoadMakesNoUnlistedCall(t *testing.T) {
	longtest.SkipSlow(t)
	load, err := os.ReadFile("testdata/load.py")
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t)
	h.otherLibc(os.Getenv("OTHER_LIBC"))
	added := h.addPackages()
	b := h.backend(func(c *Config) { c.killUnlisted = true })
	t.Logf("%s", h.run(b, h.spec("a"), "import os, importlib.util as u; [os.confstr('CS_GNU_LIBC_VERSION'), bool(u.find_spec('pandas'))]").
		Result)
	out := h.run(b, h.spec("a"), string(load))
	var got struct{ Failed, Skipped map[string]string }
	if err := json.Unmarshal(out.Result, &got); err != nil || out.Status != sandbox.Completed || len(got.Failed) > 0 {
		t.Errorf("%s %s %s %s", out.Status, out.Result, out.Error, out.Stderr)
	}
	t.Run("packages", func(t *testing.T) {
		switch without := got.Skipped["packages"]; {
		case without == "":
		case added:
			t.Error(without)
		default:
			t.Skip(without)
		}
	})
}

// addPackages makes NumPy and pandas importable, and reports whether it did. Installing those of the lock file
// needs the network, so it happens only with REQUIRE_PACKAGES.
func (h *host) addPackages() bool {
	h.t.Helper()
	if other := os.Getenv("OTHER_PACKAGES"); other != "" {
		h.cfg.Python = withAdded(h.t, h.cfg.Python, other, "")
		return true
	}
	if os.Getenv("REQUIRE_PACKAGES") == "" || runtime.GOARCH != "amd64" { // that of the lock file
		return false
	}
	in, err := interpreter()
	if err != nil {
		h.t.Fatal(err)
	}
	layer, _, err := packages.Install(h.t.Context(), packages.Config{
		Requirements: []string{"pandas", "matplotlib", "pillow"},
		LockFile:     "../../../cmd/sandpiper/testdata/packages/pylock.sandpiper.toml", LayerDir: filepath.Join(h.roots, "layers"),
	}, in)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { layer.Close() })
	libraries, missing, err := layer.SystemLibraries(in)
	if err != nil || len(missing) > 0 {
		h.t.Fatal(missing, err)
	}
	maps.Copy(libraries, h.cfg.Libraries) // of a library that both have
	h.cfg.Packages, h.cfg.Libraries = layer.Dir(), libraries
	return true
}

func TestUnlistedCallIsDetected(t *testing.T) {
	h := newHost(t)
	b := h.backend(func(c *Config) { c.killUnlisted = true })
	out := h.run(b, h.spec("a"), "import ctypes; ctypes.CDLL(None).syscall(1000)")
	if out.Status != sandbox.Crashed {
		t.Errorf("system call 1000 went unseen: %s %s", out.Status, out.Error)
	}
}

// otherLibc replaces the files of the C library by those below root, if any.
func (h *host) otherLibc(root string) {
	if root == "" {
		return
	}
	libs := map[string]string{}
	for file, inside := range h.cfg.Libraries {
		if other, err := filepath.EvalSymlinks(filepath.Join(root, inside)); err == nil {
			file = other
		}
		libs[file] = inside
	}
	h.cfg.Libraries = libs
}
