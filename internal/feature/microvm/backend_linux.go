//go:build amd64

package microvm

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/microvm/launcher"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/quota"
)

// Backend opens sandboxes in virtual machines.
type Backend struct {
	cfg        Config
	qemu       string // paths of programs
	virtiofsd  string
	nobody     int   // uid of processes that handle no file of a tenant
	kvmGroup   []int // the group that owns /dev/kvm
	kvmCaps    []int // capabilities in its namespaces that QEMU needs to open it
	kernel     kernel
	kernelFile *os.File
	initramfs  *os.File
	snapshot   *os.File // the devices of a guest
	memory     *os.File // of that guest
	pages      []extent // of memory that are not zero
	memorySize int64
	programs   fingerprint // of the programs that made the snapshot
	starter    *starter
	quotas     *quota.Watch // nil if there are none

	mu        sync.Mutex
	instances map[*instance]bool
	closed    bool
}

const (
	qemuName = "qemu-system-x86_64"
	// guestMemory is the memory of a guest besides the memory of code and three times its
	// initramfs: Linux keeps the unpacked files in at most half of the memory, and while it
	// unpacks them also the archive.
	guestMemory = 192 << 20
)

const installHint = "on Debian: apt-get install qemu-system-x86 virtiofsd linux-image-cloud-amd64 (Debian 12 has virtiofsd in " +
	"qemu-system-common)"

// New boots a guest and takes its snapshot. It fails with fault.Unavailable and a hint if this
// host lacks a program, the kernel of the guest or KVM, or if the guest does not start.
func New(ctx context.Context, cfg Config) (_ *Backend, err error) {
	b := &Backend{cfg: cfg.withDefaults(), starter: newStarter(), instances: map[*instance]bool{}}
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	if b.nobody, err = process.NobodyUID(); err != nil {
		return nil, err
	}
	if err := b.findPrograms(); err != nil {
		return nil, err
	}
	if err := b.checkAccel(); err != nil {
		return nil, err
	}
	if err := b.openFiles(); err != nil {
		return nil, err
	}
	if err := b.boot(ctx); err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	if err := b.try(ctx); err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	if b.cfg.Usage != nil {
		b.quotas = quota.New(quota.Config{Usage: b.cfg.Usage, Reserve: b.cfg.Reserve, Log: b.cfg.Log})
	}
	return b, nil
}

// Check fails if this machine lacks a program, the kernel or the processor that New needs. It
// boots no guest.
func Check(cfg Config) error {
	b := &Backend{cfg: cfg.withDefaults()}
	if err := b.findPrograms(); err != nil {
		return err
	}
	return b.checkAccel()
}

func (b *Backend) findPrograms() (err error) {
	if b.qemu, err = exec.LookPath(qemuName); err != nil {
		return fault.Wrap(fault.Unavailable, err, "sandbox.backend microvm needs %s, which is not installed", qemuName).
			WithHint(installHint)
	}
	for _, at := range b.cfg.virtiofsd {
		if _, err := os.Stat(at); err == nil {
			b.virtiofsd = at
			break
		}
	}
	if b.virtiofsd == "" {
		return fault.New(fault.Unavailable, "sandbox.backend microvm needs virtiofsd, which is not in %v", b.cfg.virtiofsd).
			WithHint(installHint)
	}
	b.kernel, err = findKernel(b.cfg.Kernel)
	return err
}

// checkAccel checks that KVM can be used, or warns that it is not.
func (b *Backend) checkAccel() error {
	if b.cfg.Accel == TCG {
		b.cfg.Log.Warn("sandbox.microvm.accel is tcg: QEMU emulates the processor of guests, WHICH IS NOT AN ISOLATION BOUNDARY; use it " +
			"for tests only")
		return nil
	}
	const hint = "load the module kvm_intel or kvm_amd on a machine whose processor has virtualization (in a virtual machine: nested), " +
		"and add the user of Sandpiper to the group kvm"
	f, err := os.OpenFile(b.cfg.kvm, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "sandbox.backend microvm needs KVM: %v", err).WithHint(hint)
	}
	defer f.Close()
	const getAPIVersion, version = 0xAE00, 12 // KVM_GET_API_VERSION
	if got, err := unix.IoctlRetInt(int(f.Fd()), getAPIVersion); err != nil || got != version {
		return fault.New(fault.Unavailable, "sandbox.backend microvm needs KVM with API version %d; %s has %d", version, b.cfg.kvm, got).
			WithHint(hint)
	}
	if info, err := f.Stat(); err == nil {
		b.kvmGroup = []int{int(info.Sys().(*syscall.Stat_t).Gid)}
		if mode := info.Mode(); os.Geteuid() == 0 && mode&0o060 != 0o060 && mode&0o006 != 0o006 {
			b.kvmCaps = []int{unix.CAP_DAC_OVERRIDE} // only root may open it
		}
	}
	return nil
}

// openFiles opens the kernel and makes the initramfs.
func (b *Backend) openFiles() (err error) {
	if b.programs, err = fingerprintOf(b.qemu, b.virtiofsd, b.kernel.path); err != nil {
		return err
	}
	for _, f := range []**os.File{&b.kernelFile, &b.initramfs, &b.snapshot, &b.memory} {
		if *f, err = newMemfd(); err != nil {
			return err
		}
	}
	if err := copyFile(b.kernelFile, b.kernel.path); err != nil { // QEMU's user may not be able to read it
		return fault.Wrap(fault.Unavailable, err, "reading the kernel of guests")
	}
	if err := writeInitramfs(b.initramfs, b.cfg, b.kernel); err != nil {
		return fault.Wrap(fault.Unavailable, err, "writing the initramfs of guests: %v", err).WithHint("%s", fault.Hint(err))
	}
	if err := errors.Join(seal(b.kernelFile), seal(b.initramfs)); err != nil {
		return err
	}
	info, err := b.initramfs.Stat()
	if err != nil {
		return err
	}
	b.memorySize = (b.cfg.MaxMemory + guestMemory + 3*info.Size() + 1<<20 - 1) >> 20 << 20
	return nil
}

func copyFile(to *os.File, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}

// boot boots a guest until its zygote is warm, and takes the snapshot.
func (b *Backend) boot(ctx context.Context) error {
	failed := func(err error) error {
		return fault.Wrap(fault.Unavailable, err, "the guest of sandbox.backend microvm does not start: %v", err).
			WithHint("check that %s boots on this machine and that the imports of sandbox.preload are quick; if the machine is slow, "+
				"free some memory or processors", b.kernel.path)
	}
	memory, err := b.newMemory()
	if err != nil {
		return err
	}
	defer memory.Close()
	v, err := b.startVM(start{memory: memory})
	if err != nil {
		return failed(err)
	}
	defer v.close()
	defer context.AfterFunc(ctx, v.kill)()
	deadline := time.Now().Add(b.cfg.bootTimeout)
	ready, err := v.answer(deadline, "ready")
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("no interpreter was ready within %s: %w", b.cfg.bootTimeout, err)
		}
		return failed(err)
	}
	for name, why := range ready.Unfit {
		b.cfg.Log.Warn("skipping a module of sandbox.preload; code can still import it", "module", name, "why", why)
	}
	if err := v.save(deadline, b.snapshot); err != nil {
		return failed(err)
	}
	return errors.Join(seal(b.snapshot), b.keepMemory(memory))
}

// try opens a sandbox, whose workspace is the interpreter. Not everything that sandboxes need is
// needed to boot.
func (b *Backend) try(ctx context.Context) error {
	roots := b.cfg.Roots
	defer func() { b.cfg.Roots = roots }()
	b.cfg.Roots = map[string]string{"python": filepath.Dir(b.cfg.Python)}
	s, err := b.Open(ctx, sandbox.Spec{Owner: "(try)", Mounts: []sandbox.Mount{{Target: "/workspace", Root: "python",
		Name: filepath.Base(b.cfg.Python), ReadOnly: true}}})
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "no sandbox of sandbox.backend microvm opens on this machine: %v", err).
			WithHint("check that %s works, and that %s has virtio-serial, virtiofs, PCI hot-plugging, cgroups v2 and Landlock", b.virtiofsd,
				b.kernel.path)
	}
	return s.Close()
}

// seal makes a memfd read-only. All guests use it, and a guest may have taken over its QEMU.
func seal(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	return err
}

// save stops the guest, and writes the state of its devices to a file.
func (v *vm) save(deadline time.Time, to *os.File) error {
	if err := v.monitor.do(deadline, nil, "migrate-set-parameters", map[string]any{"max-bandwidth": int64(1) << 40}); err != nil {
		return err
	}
	if err := v.monitor.pass(deadline, "snapshot", to); err != nil {
		return err
	}
	if err := v.monitor.do(deadline, nil, "migrate", map[string]any{"uri": "fd:snapshot"}); err != nil {
		return err
	}
	for {
		var state struct {
			Status string `json:"status"`
			Error  string `json:"error-desc"`
		}
		if err := v.monitor.do(deadline, &state, "query-migrate", nil); err != nil {
			return err
		}
		switch state.Status {
		case "completed":
			return nil
		case "failed":
			return errors.New("QEMU migrate: " + state.Error)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Open implements sandbox.Backend.
func (b *Backend) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	spec.Limits = spec.Limits.WithDefaults(b.cfg.Defaults)
	uid, err := b.check(spec)
	if err != nil {
		return nil, err
	}
	if !b.intact() {
		return nil, fault.Wrap(fault.Unavailable, sandbox.ErrDamaged,
			"no sandbox can be opened: the interpreter, QEMU or the kernel of guests has changed on disk").
			WithHint("run the code again: a new guest boots")
	}
	x := &instance{b: b, limits: spec.Limits, usages: make(chan guestMessage, 1), exited: make(chan struct{})}
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.instances[x] = true
	}
	b.mu.Unlock()
	if closed {
		return nil, fault.New(fault.Unavailable, "the sandbox is closed")
	}
	if err := x.open(ctx, spec, uid); err != nil {
		x.Close()
		if ctx.Err() != nil {
			err = fault.Wrap(fault.Unavailable, context.Cause(ctx), "no sandbox opened in time").
				WithHint("run it again in a moment; if that does not help, run `sandpiper doctor`")
		}
		return nil, err
	}
	return x, nil
}

// check returns the uid of the tenant of a spec.
func (b *Backend) check(spec sandbox.Spec) (int, error) {
	if err := spec.Check(name); err != nil {
		return 0, err
	}
	for _, m := range spec.Mounts {
		if b.cfg.Roots[m.Root] == "" {
			return 0, fmt.Errorf("sandbox: no such root %q", m.Root)
		}
	}
	if spec.Limits.MemoryBytes > b.cfg.MaxMemory {
		return 0, fmt.Errorf("sandbox: a memory limit of %d MB: guests have %d MB", spec.Limits.MemoryBytes>>20, b.cfg.MaxMemory>>20)
	}
	return process.TenantUID(spec.UID)
}

func exports(roots map[string]string, spec sandbox.Spec) []launcher.Export {
	var list []launcher.Export
	for _, m := range spec.Mounts {
		list = append(list, launcher.Export{Root: roots[m.Root], Name: m.Name, ReadOnly: m.ReadOnly})
	}
	return list
}

// workspaceDir returns the directory of /workspace on the host.
func workspaceDir(roots map[string]string, spec sandbox.Spec) string {
	i := slices.IndexFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Target == "/workspace" })
	return filepath.Join(roots[spec.Mounts[i].Root], spec.Mounts[i].Name)
}

// Drain waits until no sandbox is open, or ctx ends.
func (b *Backend) Drain(ctx context.Context) {
	for tick := time.NewTicker(drainInterval); ; {
		b.mu.Lock()
		open := len(b.instances)
		b.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

const drainInterval = 100 * time.Millisecond

// Close implements sandbox.Backend.
func (b *Backend) Close() error {
	b.mu.Lock()
	instances, closed := b.instances, b.closed
	b.instances, b.closed = map[*instance]bool{}, true
	b.mu.Unlock()
	if closed {
		return nil
	}
	for x := range instances {
		_ = x.Close()
	}
	b.starter.close()
	for _, f := range []*os.File{b.kernelFile, b.initramfs, b.snapshot, b.memory} {
		if f != nil {
			f.Close()
		}
	}
	return nil
}

// newSeed returns random bytes for a guest.
func newSeed() []byte {
	seed := make([]byte, 64)
	_, _ = rand.Read(seed) // never fails
	return seed
}
