package microvm

import (
	"cmp"
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
	// In Config, Packages is copied to the memory of guests, the snapshot has imported Preload, and State is not used.
	sandbox.Config
	// MaxMemory is the largest memory limit of a spec: guests have a fixed size, which is this
	// plus the memory that the guest itself needs. 0 means Defaults.MemoryBytes.
	MaxMemory int64

	bootTimeout   time.Duration // 0 means 1 min with KVM and 5 min with TCG
	importTimeout time.Duration // of one module of Preload; 0 means half of bootTimeout
	stepTimeout   time.Duration // of a restored guest; 0 means 10 s with KVM and 2 min with TCG
	kvm           string        // path of the device; "" means /dev/kvm
	virtiofsd     []string      // possible paths of the program; nil means virtiofsdPaths
}

// virtiofsdPaths are the places of virtiofsd, which is in no PATH.
var virtiofsdPaths = []string{"/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/lib/virtiofsd"}

func (c Config) withDefaults() Config {
	c.Config = c.Config.WithDefaults()
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
	return c
}
