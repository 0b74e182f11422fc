//go:build amd64

package microvm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Whatever is missing is reported at the start, with a remedy.
func TestNewRefusesWithRemedy(t *testing.T) {
	h := newHost(t)
	h.requirePrograms()
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	kernel, err := findKernel(h.cfg.Kernel)
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(kernel.path)
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(t.TempDir(), "vmlinuz")
	if err := os.WriteFile(alone, image, 0o644); err != nil {
		t.Fatal(err)
	}
	hangs := filepath.Join(t.TempDir(), "boot", "vmlinuz")
	image[0x200], image[0x201] = 0xeb, 0xfe // its first instruction jumps to itself
	if err := errors.Join(os.Mkdir(filepath.Dir(hangs), 0o755), os.WriteFile(hangs, image, 0o644),
		os.Symlink(filepath.Join(filepath.Dir(kernel.path), "../lib"), filepath.Join(filepath.Dir(hangs), "../lib"))); err != nil {
		t.Fatal(err)
	}
	large := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(large, "large.so"), nil, 0o644),
		os.Truncate(filepath.Join(large, "large.so"), maxInitramfs)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name       string
		change     func(*Config)
		path       string
		says, hint string
	}{
		{"no QEMU", nil, t.TempDir(), "needs qemu-system-x86_64", "apt-get install qemu-system-x86"},
		{"no virtiofsd", func(c *Config) { c.virtiofsd = []string{"/nowhere/virtiofsd"} }, "",
			"needs virtiofsd, which is not in [/nowhere/virtiofsd]", "apt-get install qemu-system-x86"},
		{"no kernel", func(c *Config) { c.Kernel = "/nowhere/vmlinuz" }, "", "sandbox.microvm.kernel /nowhere/vmlinuz cannot be used",
			"linux-image-cloud-amd64"},
		{"a kernel that is text", func(c *Config) { c.Kernel = text }, "", "not a bzImage", "linux-image-cloud-amd64"},
		{"a kernel without modules", func(c *Config) { c.Kernel = alone }, "", "the modules of kernel " + alone + " cannot be read",
			"../lib/modules/" + kernel.version},
		{"no KVM", func(c *Config) { c.Accel, c.kvm = KVM, "/dev/nowhere" }, "", "needs KVM: open /dev/nowhere", "group kvm"},
		{"a device that is not KVM", func(c *Config) { c.Accel, c.kvm = KVM, "/dev/null" }, "", "needs KVM with API version 12",
			"group kvm"},
		{"a guest that hangs", func(c *Config) { c.Kernel, c.bootTimeout = hangs, 3*time.Second }, "", "no interpreter was ready within 3s",
			"check that " + hangs + " boots"},
		{"packages that are too large", func(c *Config) { c.Packages = large }, "",
			"the interpreter and its packages are larger than 1024 MB", "remove some of sandbox.packages"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := h.cfg
			if c.change != nil {
				c.change(&cfg)
			}
			if c.path != "" {
				t.Setenv("PATH", c.path)
			}
			b, err := New(t.Context(), cfg)
			if err == nil {
				b.Close()
			}
			if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), c.says) || !strings.Contains(fault.Hint(err),
				c.hint) {
				t.Errorf("%v\nhint: %s", err, fault.Hint(err))
			}
			if left := leftovers(h); left != "" {
				t.Error("left behind:", left)
			}
		})
	}
}

// requirePrograms skips a test on a machine without the programs of this backend.
func (h *host) requirePrograms() {
	h.t.Helper()
	b := &Backend{cfg: h.cfg.withDefaults()}
	if err := b.findPrograms(); err != nil {
		if os.Getenv("REQUIRE_MICROVM") != "" {
			h.t.Fatal(err)
		}
		h.t.Skip(err)
	}
}

// A virtiofsd that does not start is reported at the start, although a guest boots without it.
func TestNewOpensSandbox(t *testing.T) {
	longtest.Skip(t)
	h := newHost(t)
	h.requirePrograms()
	h.cfg.virtiofsd = []string{"/usr/bin/false"}
	b, err := New(t.Context(), h.cfg)
	if err == nil {
		b.Close()
	}
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err),
		"no sandbox of sandbox.backend microvm opens on this machine") ||
		!strings.Contains(fault.Hint(err), "check that /usr/bin/false works") {
		t.Errorf("%v\nhint: %s", err, fault.Hint(err))
	}
	if left := leftovers(h); left != "" {
		t.Error("left behind:", left)
	}
}

// A snapshot belongs to one version of QEMU and of the kernel.
func TestOpenRefusesSnapshotOfAnotherVersion(t *testing.T) {
	h := newHost(t)
	program := filepath.Join(t.TempDir(), "qemu")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	b := &Backend{cfg: h.cfg.withDefaults(), qemu: program, virtiofsd: program, kernel: kernel{path: program},
		instances: map[*instance]bool{}}
	var err error
	if b.programs, err = fingerprintOf(program, program, program); err != nil || !b.intact() {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("newer"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Open(t.Context(), h.spec("a")); !errors.Is(err, sandbox.ErrDamaged) {
		t.Error(err)
	}
}
