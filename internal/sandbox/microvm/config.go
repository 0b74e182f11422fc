package microvm

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// The values of Config.Accel.
const (
	KVM = "kvm"
	TCG = "tcg"
)

// Config of a microvm backend.
type Config struct {
	// Kernel is the path of the guest's Linux kernel. Its modules are in
	// ../lib/modules/VERSION. "" means the newest /boot/vmlinuz-*-cloud-amd64.
	Kernel string
	// Accel is KVM or TCG, which emulates the processor: it is no isolation boundary, and
	// for tests only. "" means KVM.
	Accel string
	// Python is the directory of the interpreter, see process.Config. Required.
	Python string
	// Libraries are the host's files that the interpreter needs, see process.Config. Required.
	Libraries map[string]string
	// Packages is a directory of packages that code may import; "" means none. Guests have a
	// copy in memory.
	Packages string
	// Intact reports whether Python and Packages are unchanged, see process.Config. Nil
	// disables the check.
	Intact func(thorough bool) bool
	// Preload lists modules that the snapshot has imported, see process.Config.
	Preload []string
	// Roots are the directories that mounts may name, by key. Required for "workspaces".
	Roots map[string]string
	// Defaults for limits that a Spec leaves at zero; zero fields mean those of
	// sandbox.DefaultLimits.
	Defaults sandbox.Limits
	// MaxMemory is the largest memory limit of a spec: guests have a fixed size, which is this
	// plus the memory that the guest itself needs. 0 means Defaults.MemoryBytes.
	MaxMemory int64
	// Usage measures a directory below a root, see process.Config. Nil disables the limits
	// on workspaces.
	Usage func(ctx context.Context, dir string) (bytes, files int64, err error)
	// Reserve is the free disk space below which code is killed; 0 means none.
	Reserve int64
	// Log receives events of guests; nil discards.
	Log *slog.Logger

	bootTimeout   time.Duration // 0 means 1 min with KVM and 5 min with TCG
	importTimeout time.Duration // of one module of Preload; 0 means half of bootTimeout
	stepTimeout   time.Duration // of a restored guest; 0 means 10 s with KVM and 2 min with TCG
	kvm           string        // path of the device; "" means /dev/kvm
	virtiofsd     []string      // possible paths of the program; nil means virtiofsdPaths
}

// virtiofsdPaths are the places of virtiofsd, which is in no PATH.
var virtiofsdPaths = []string{"/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/lib/virtiofsd"}

func (c Config) withDefaults() Config {
	c.Defaults = c.Defaults.WithDefaults(sandbox.DefaultLimits())
	c.MaxMemory = max(c.MaxMemory, c.Defaults.MemoryBytes)
	c.Accel = cmp.Or(c.Accel, KVM)
	boot, step := time.Minute, 10*time.Second
	if c.Accel == TCG {
		boot, step = 5*boot, 12*step
	}
	c.bootTimeout, c.stepTimeout = cmp.Or(c.bootTimeout, boot), cmp.Or(c.stepTimeout, step)
	c.importTimeout = cmp.Or(c.importTimeout, c.bootTimeout/2)
	c.kvm = cmp.Or(c.kvm, "/dev/kvm")
	if c.virtiofsd == nil {
		c.virtiofsd = virtiofsdPaths
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
