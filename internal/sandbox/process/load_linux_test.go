package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// testdata/load.py makes the system calls of ordinary Python. All of it must work in a
// sandbox without an unlisted call, which kills the process here. OTHER_LIBC names a root directory with another glibc to
// try it with, such as an unpacked package, and OTHER_PACKAGES a directory of
// Python packages that the load then uses.

func TestLoadMakesNoUnlistedCall(t *testing.T) {
	load, err := os.ReadFile("testdata/load.py")
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t)
	h.otherLibc(os.Getenv("OTHER_LIBC"))
	if packages := os.Getenv("OTHER_PACKAGES"); packages != "" {
		h.cfg.Python = withAdded(t, h.cfg.Python, packages, "")
	}
	b := h.backend(func(c *Config) { c.killUnlisted = true })
	t.Logf("%s", h.run(b, h.spec("a"), "import os, importlib.util as u; [os.confstr('CS_GNU_LIBC_VERSION'), bool(u.find_spec('pandas'))]").Result)
	out := h.run(b, h.spec("a"), string(load))
	if out.Status != sandbox.Completed || string(out.Result) != "{}" {
		t.Errorf("%s %s %s %s", out.Status, out.Result, out.Error, out.Stderr)
	}
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
