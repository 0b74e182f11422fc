package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Backend makes sandboxes of the kernel's own means.
type Backend struct {
	cfg      Config
	ids      idMaps
	landlock int // ABI version of this kernel; 0 without Landlock
	groups   *cgroups
	lock     *flock.Flock
	pool     *pool
	running  atomic.Int64 // programs
	shares   *shares
	files    files

	mu     sync.Mutex
	keeper *keeperHandle
	zygote *zygote
	unfit  map[string]string // modules that cannot be imported ahead, and why
	disks  map[string]*disk  // by directory of a workspace
	closed bool
	tasks  sync.WaitGroup // ends of workers, refills, watches
}

// New starts the backend. It fails with fault.Unavailable, and a hint, if this
// host does not allow what the sandbox stands on.
func New(cfg Config) (*Backend, error) {
	cfg = cfg.withDefaults()
	b := &Backend{cfg: cfg, ids: hostIDs(), landlock: landlockABI(), unfit: map[string]string{}}
	b.pool, b.shares = newPool(b), newShares(b)
	name := "sandpiper-" + strings.ToLower(rand.Text()[:12])
	if err := b.claim(name); err != nil {
		return nil, err
	}
	b.groups = &cgroups{why: "switched off"}
	if !contains(cfg.Disabled, "cgroups") {
		b.groups = openCgroups(name)
	}
	if _, err := b.liveZygote(); err != nil {
		b.Close()
		return nil, unavailable(err)
	}
	return b, nil
}

// claim takes a lock that lives as long as this process, and removes what
// daemons left whose lock is free.
func (b *Backend) claim(name string) error {
	if err := os.MkdirAll(b.cfg.State, 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the state directory %s cannot be made", b.cfg.State)
	}
	left, _ := filepath.Glob(filepath.Join(b.cfg.State, "sandpiper-*.lock"))
	b.lock = flock.New(filepath.Join(b.cfg.State, name+".lock"))
	if ok, err := b.lock.TryLock(); err != nil || !ok {
		return fault.Wrap(fault.Unavailable, err, "the state directory %s cannot be written", b.cfg.State)
	}
	for _, file := range left {
		l := flock.New(file)
		if ok, _ := l.TryLock(); ok {
			removeGroupsOf(strings.TrimSuffix(filepath.Base(file), ".lock"))
			_ = os.Remove(file)
			_ = l.Close()
		}
	}
	return nil
}

func landlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// liveZygote returns a zygote to fork from, starting or replacing what must be.
func (b *Backend) liveZygote() (*zygote, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fault.New(fault.Unavailable, "the sandbox is closed")
	}
	if z := b.zygote; z != nil {
		if !z.dead() && !z.worn(b.cfg.ZygoteAge, b.cfg.ZygoteForks) {
			return z, nil
		}
		b.zygote = nil
		z.close()
	}
	z, err := b.startZygote()
	if errors.Is(err, errKeeperGone) { // it died, and nobody had noticed
		z, err = b.startZygote()
	}
	b.zygote = z
	return z, err
}

// startZygote starts one, under a new keeper if the last has died.
func (b *Backend) startZygote() (*zygote, error) {
	if b.keeper != nil && b.keeper.dead() {
		b.keeper.close()
		b.keeper = nil
	}
	if b.keeper == nil {
		k, err := startKeeper(b.keeperInit(), b.ids, b.cfg.Log)
		if err != nil {
			return nil, err
		}
		b.keeper = k
	}
	z, err := startZygote(b.keeper, b.zygoteInit(), b.cfg.importTimeout, b.cfg.Log)
	for bad, ok := errors.AsType[*preloadError](err); ok; bad, ok = errors.AsType[*preloadError](err) {
		b.cfg.Log.Warn("a module of sandbox.preload is left out; code can still import it", "module", bad.module, "why", bad.why)
		b.unfit[bad.module] = bad.why
		z, err = startZygote(b.keeper, b.zygoteInit(), b.cfg.importTimeout, b.cfg.Log)
	}
	if errors.Is(err, errKeeperGone) {
		b.keeper.close()
		b.keeper = nil
	}
	return z, err
}

// keeperNow returns the keeper; nil if the last one died and none could be
// started since.
func (b *Backend) keeperNow() *keeperHandle {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.keeper
}

func (b *Backend) keeperInit() keeperInit {
	return keeperInit{Python: b.cfg.Python, Libraries: b.cfg.Libraries, Packages: b.cfg.Packages, Roots: b.cfg.Roots, Disabled: b.cfg.Disabled}
}

func (b *Backend) zygoteInit() zygoteInit {
	init := zygoteInit{
		Disabled: append([]string{}, b.cfg.Disabled...), UID: b.ids.zygote, TmpBytes: tmpBytes(b.cfg.Defaults.MemoryBytes),
		FilterFirst: encode(filter(bindingRules())), FilterSecond: encode(filter(b.sealedRules())),
	}
	if b.landlock == 0 && !contains(init.Disabled, "landlock") {
		init.Disabled = append(init.Disabled, "landlock")
	}
	init.Preload = slices.DeleteFunc(append([]string{}, b.cfg.Preload...), func(name string) bool { _, bad := b.unfit[name]; return bad })
	if b.cfg.Packages != "" {
		init.Packages = packagesDir
	}
	init.Unmount = []string{}
	if !contains(b.cfg.Disabled, "root") {
		for key := range b.cfg.Roots {
			init.Unmount = append(init.Unmount, rootsDir+"/"+key)
		}
	}
	return init
}

func (b *Backend) sealedRules() map[int]rule {
	if b.cfg.killUnlisted {
		return killUnlistedRules()
	}
	return sealedRules()
}

// tmpBytes is the size of /tmp and of /dev/shm: together they fit the memory
// limit that they count towards.
func tmpBytes(memory int64) int64 { return memory / 2 }

// Open returns a sealed sandbox.
func (b *Backend) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	spec.Limits = fill(spec.Limits, b.cfg.Defaults)
	if err := b.check(spec); err != nil {
		return nil, err
	}
	if !b.intact(false) {
		return nil, damaged("no sandbox was opened")
	}
	w, err := b.pool.take(ctx, spec)
	if err != nil && ctx.Err() == nil && !b.intact(true) {
		err = damaged("no sandbox was opened")
	}
	if err != nil {
		return nil, err
	}
	x := &box{b: b, w: w, limits: spec.Limits, owner: spec.Owner}
	x.disk = b.joinDisk(x, spec)
	return x, nil
}

// Warm starts making sandboxes for spec ahead of its first Open.
func (b *Backend) Warm(spec sandbox.Spec) {
	spec.Limits = fill(spec.Limits, b.cfg.Defaults)
	if b.check(spec) == nil {
		b.pool.warm(spec)
	}
}

func (b *Backend) check(spec sandbox.Spec) error {
	if spec.Owner == "" {
		return errors.New("sandbox: a spec without an owner")
	}
	if spec.UID != 0 && spec.UID != os.Geteuid() && (!b.ids.root || spec.UID < FirstUID || spec.UID > LastUID) {
		return fmt.Errorf("sandbox: host uid %d cannot be taken", spec.UID)
	}
	workspace := false
	for _, m := range spec.Mounts {
		workspace = workspace || m.Target == "/workspace"
		if m.Name == "" || m.Name == "." || m.Name == ".." || strings.Contains(m.Name, "/") {
			return fmt.Errorf("sandbox: %q is not one name beneath a root", m.Name) // "." would be the root, with everybody's directories
		}
	}
	if !workspace {
		return errors.New("sandbox: a spec without /workspace")
	}
	return nil
}

// Close ends all sandboxes and the machinery.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	z, k := b.zygote, b.keeper
	b.mu.Unlock()
	b.pool.close()
	if z != nil {
		z.close()
	}
	if k != nil {
		k.close()
	}
	b.tasks.Wait()
	if b.groups != nil {
		b.groups.close()
	}
	_ = os.Remove(b.lock.Path())
	return b.lock.Close()
}

// unavailable turns what a host refused into a sentence with a remedy.
func unavailable(err error) error {
	if fault.KindOf(err) != fault.Internal {
		return err
	}
	_, remedy := remedyFor(err)
	return fault.Wrap(fault.Unavailable, err, "this host does not allow the sandbox that code runs in, so nothing is executed").
		WithHint("%s", remedy)
}
