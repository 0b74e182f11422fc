package process

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
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
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process/keeper"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/quota"
)

// Backend opens sandboxes made of Linux kernel features.
type Backend struct {
	cfg       Config
	ids       idMaps
	landlock  int // ABI version of this kernel; 0 without Landlock
	programs  []string
	groups    *cgroups
	lock      *flock.Flock
	pool      *pool
	running   atomic.Int64 // active Runs
	shares    *shares
	quotas    *quota.Watch // nil if there are none
	integrity Integrity

	socketBytes int64 // that a socket can hold

	mu     sync.Mutex
	keeper *keeperHandle
	zygote *zygote
	unfit  map[string]string // modules that cannot be preloaded -> reason
	closed bool
	tasks  sync.WaitGroup // background work on workers and refills
}

// New starts the backend. It fails with fault.Unavailable and a hint if this host
// lacks or denies a required kernel feature.
func New(cfg Config) (*Backend, error) {
	cfg = cfg.withDefaults()
	ids, err := hostIDs()
	if err != nil {
		return nil, unavailable(err)
	}
	b := &Backend{
		cfg:       cfg,
		ids:       ids,
		landlock:  landlockABI(),
		programs:  programs(cfg.Libraries),
		unfit:     map[string]string{},
		integrity: Integrity{Check: cfg.Intact},
	}
	b.socketBytes = cmp.Or(cfg.socketBytes, hostSocketBytes())
	b.pool, b.shares = newPool(b), newShares(b)
	if cfg.Usage != nil && !contains(cfg.Disabled, "disk") {
		b.quotas = quota.New(quota.Config{Usage: cfg.Usage, Reserve: cfg.Reserve, Log: cfg.Log})
	}
	name := "sandpiper-" + strings.ToLower(rand.Text()[:12])
	if err := b.claim(name); err != nil {
		return nil, err
	}
	b.groups = &cgroups{why: "disabled"}
	if cfg.withoutCgroups {
		b.groups.why = "none granted"
	} else if !contains(cfg.Disabled, "cgroups") {
		if b.groups, err = openCgroups(name); err != nil {
			b.Close()
			return nil, err
		}
	}
	if _, err := b.currentZygote(); err != nil {
		b.Close()
		return nil, unavailable(err)
	}
	return b, nil
}

// claim locks a file for the lifetime of this process, and removes the cgroups of
// daemons whose lock is free.
func (b *Backend) claim(name string) error {
	if err := os.MkdirAll(b.cfg.State, 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err, "creating the state directory %s", b.cfg.State)
	}
	left, _ := filepath.Glob(filepath.Join(b.cfg.State, "sandpiper-*.lock"))
	b.lock = flock.New(filepath.Join(b.cfg.State, name+".lock"))
	if ok, err := b.lock.TryLock(); err != nil || !ok {
		return fault.Wrap(fault.Unavailable, err, "writing to the state directory %s", b.cfg.State)
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

// programs returns what code may execute, as paths inside: the interpreter, and glibc's
// loader, which the kernel executes with it.
func programs(libraries map[string]string) []string {
	list := []string{keeper.Python}
	for _, inside := range libraries {
		if strings.HasPrefix(filepath.Base(inside), "ld-linux") {
			list = append(list, inside)
		}
	}
	return list
}

// currentZygote returns the zygote, after starting or replacing it if necessary.
func (b *Backend) currentZygote() (*zygote, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fault.New(fault.Unavailable, "the sandbox is closed")
	}
	if z := b.zygote; z != nil {
		if !z.dead() && !z.expired(b.cfg.ZygoteAge, b.cfg.ZygoteForks) {
			return z, nil
		}
		b.zygote = nil
		z.close()
	}
	z, err := b.startZygote()
	if errors.Is(err, errKeeperGone) { // the keeper died unnoticed
		z, err = b.startZygote()
	}
	b.zygote = z
	return z, err
}

// startZygote starts a zygote, and a keeper if there is none alive.
func (b *Backend) startZygote() (*zygote, error) {
	if b.keeper != nil && b.keeper.dead() {
		b.keeper.close()
		b.keeper = nil
	}
	if b.keeper == nil {
		k, err := startKeeper(b.keeperInit(), b.ids, b.cfg.startTimeout, b.cfg.Log)
		if err != nil {
			return nil, err
		}
		b.keeper = k
	}
	z, err := startZygote(b)
	for bad, ok := errors.AsType[*preloadError](err); ok; bad, ok = errors.AsType[*preloadError](err) {
		b.cfg.Log.Warn("skipping a module of sandbox.preload; code can still import it", "module", bad.module, "why", bad.why)
		b.unfit[bad.module] = bad.why
		z, err = startZygote(b)
	}
	if errors.Is(err, errKeeperGone) {
		b.keeper.close()
		b.keeper = nil
	}
	return z, err
}

// currentKeeper returns the keeper, or nil if it died and no other could be
// started.
func (b *Backend) currentKeeper() *keeperHandle {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.keeper
}

func (b *Backend) keeperInit() keeper.Init {
	init := keeper.Init{Python: b.cfg.Python, Libraries: b.cfg.Libraries, Packages: b.cfg.Packages, Roots: b.cfg.Roots,
		Disabled: b.cfg.Disabled}
	if !contains(b.cfg.Disabled, "seccomp") {
		init.Filter = filter(b.withEpoll(keeperRules()))
	}
	return init
}

func (b *Backend) zygoteInit() zygoteInit {
	init := zygoteInit{
		Disabled: append([]string{}, b.cfg.Disabled...), UID: b.ids.zygote, TmpBytes: tmpBytes(b.cfg.Defaults.MemoryBytes),
		Own:          b.cfg.OwnNamespaces,
		FilterFirst:  encode(filter(b.withEpoll(bindingRules()))),
		FilterSecond: encode(filter(lockdownRules(bindingRules(), b.withEpoll(b.workerRules())))),
	}
	if b.landlock == 0 && !contains(init.Disabled, "landlock") {
		init.Disabled = append(init.Disabled, "landlock")
	}
	init.Preload = slices.DeleteFunc(append([]string{}, b.cfg.Preload...), func(name string) bool { _, bad := b.unfit[name]; return bad })
	if b.cfg.Packages != "" {
		init.Packages = keeper.PackagesDir
	}
	init.Unmount = []string{}
	if !contains(b.cfg.Disabled, "root") {
		for key := range b.cfg.Roots {
			init.Unmount = append(init.Unmount, keeper.RootsDir+"/"+key)
		}
	}
	return init
}

func (b *Backend) workerRules() map[int]rule {
	rules := workerRules()
	if b.cfg.killUnlisted {
		rules = killUnlistedRules()
	}
	if b.groups.version == 0 && !contains(b.cfg.Disabled, "cgroups") {
		uncountedRules(rules)
	}
	return rules
}

// withEpoll allows epoll in rules, if the configuration does.
func (b *Backend) withEpoll(rules map[int]rule) map[int]rule {
	if b.cfg.Epoll {
		for _, nr := range slices.Concat(pollerCalls, oldPollerCalls) {
			rules[nr] = rule{otherwise: allow}
		}
	}
	return rules
}

// tmpBytes returns the size of /tmp and of /dev/shm. Both count towards the memory
// limit and fit it together.
func tmpBytes(memory int64) int64 { return memory / 2 }

// Open implements sandbox.Backend.
func (b *Backend) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	spec.Limits = spec.Limits.WithDefaults(b.cfg.Defaults)
	if err := b.check(spec); err != nil {
		return nil, err
	}
	if !b.integrity.Intact(false) {
		return nil, Damaged("no sandbox can be opened")
	}
	w, err := b.pool.take(ctx, spec)
	if err != nil && ctx.Err() == nil && !b.integrity.Intact(true) {
		err = Damaged("no sandbox can be opened")
	}
	if err != nil {
		return nil, err
	}
	x := &instance{b: b, w: w, limits: spec.Limits, owner: spec.Owner}
	for _, m := range spec.Mounts {
		if m.Target == "/workspace" && !m.ReadOnly {
			x.disk = b.quotas.Join(filepath.Join(b.cfg.Roots[m.Root], m.Name), x, spec.Limits)
		}
	}
	return x, nil
}

// Warm starts binding workers for spec before its first Open.
func (b *Backend) Warm(spec sandbox.Spec) {
	spec.Limits = spec.Limits.WithDefaults(b.cfg.Defaults)
	if b.check(spec) == nil {
		b.pool.warm(spec)
	}
}

func (b *Backend) check(spec sandbox.Spec) error {
	if err := spec.Check("process"); err != nil {
		return err
	}
	_, err := b.ids.tenant(spec.UID)
	return err
}

// Close implements sandbox.Backend.
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

// unavailable converts an error of the host to fault.Unavailable with a remedy.
func unavailable(err error) error {
	if fault.Inconclusive(err) { // another time it may allow the sandbox
		return late(err)
	}
	if fault.KindOf(err) != fault.Internal {
		return err
	}
	_, remedy := remedyFor(err)
	return fault.Wrap(fault.Unavailable, err, "this host does not allow the sandbox that code runs in, so nothing is executed").
		WithHint("%s", remedy)
}
