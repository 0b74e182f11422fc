package gvisor

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/quota"
)

// Backend opens sandboxes on gVisor.
type Backend struct {
	cfg       Config
	program   program
	dir       string // holds the root directory and a directory for each sandbox
	lock      *flock.Flock
	starter   starter
	groups    *process.Cgroups
	pool      *pool
	quotas    *quota.Watch // nil if there are none
	integrity process.Integrity
	running   atomic.Int64 // active Runs
	next      atomic.Int64

	ending context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup // starts, ends and refills

	mu     sync.Mutex
	closed bool
	live   map[*guest]bool
}

// New starts the backend. It fails with fault.Unavailable and a hint if runsc is missing or too
// old, or if this host does not allow a sandbox of it: New opens one.
func New(ctx context.Context, cfg Config) (*Backend, error) {
	cfg = cfg.withDefaults()
	b := &Backend{cfg: cfg, live: map[*guest]bool{}, integrity: process.Integrity{Check: cfg.Intact}}
	b.ending, b.cancel = context.WithCancel(context.Background())
	b.pool = newPool(b)
	if cfg.Usage != nil {
		b.quotas = quota.New(quota.Config{Usage: cfg.Usage, Reserve: cfg.Reserve, Log: cfg.Log})
	}
	var err error
	if b.program, err = findProgram(ctx, cfg.Runsc); err != nil {
		return nil, err
	}
	name := newName()
	if err := b.claim(name); err != nil {
		return nil, err
	}
	b.starter = newStarter()
	if b.groups, err = process.OpenCgroups(name); err == nil {
		err = b.makeRoot()
	}
	if err == nil {
		err = b.try(ctx)
	}
	if err != nil {
		b.Close()
		return nil, fault.Wrap(fault.Unavailable, err, "no sandbox of %s (version %s) starts on this host, so nothing is executed",
			b.program.path, b.program.version).
			WithHint("version %s works; %s", tested, install)
	}
	return b, nil
}

// maxPath is the longest path of a socket, less the names below the directory of the backend.
const maxPath = 107 - len("/zzzzz/runsc-zzzzz.sock")

// checkPath fails if the path of the directory of a backend is too long.
func checkPath(dir string) error {
	if len(dir) > maxPath { // runsc would create its sockets in /tmp
		return fault.New(fault.Unavailable, "the path %s is too long for the sockets of runsc", dir).
			WithHint("set data_dir to a path of at most %d bytes", maxPath-len("/run/")-len(filepath.Base(dir)))
	}
	return nil
}

// newName returns the name of the directory of a backend.
func newName() string { return "gv-" + strings.ToLower(rand.Text()[:6]) }

// claim creates and locks the directory of this backend, and removes those of daemons that died.
func (b *Backend) claim(name string) error {
	b.dir = filepath.Join(b.cfg.State, name)
	if err := checkPath(b.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(b.cfg.State, 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err, "creating the state directory %s", b.cfg.State)
	}
	left, _ := filepath.Glob(filepath.Join(b.cfg.State, "gv-*.lock"))
	b.lock = flock.New(b.dir + ".lock")
	if ok, err := b.lock.TryLock(); err != nil || !ok {
		return fault.Wrap(fault.Unavailable, err, "writing to the state directory %s", b.cfg.State)
	}
	for _, file := range left {
		l := flock.New(file)
		if ok, _ := l.TryLock(); ok {
			dir := strings.TrimSuffix(file, ".lock")
			process.RemoveCgroups(filepath.Base(dir))
			_ = os.RemoveAll(dir)
			_ = os.Remove(file)
			_ = l.Close()
		}
	}
	return os.Mkdir(b.dir, 0o700)
}

// try opens a sandbox of an empty directory.
func (b *Backend) try(ctx context.Context) error {
	spec, clean, err := b.probeSpec()
	if err != nil {
		return err
	}
	defer clean()
	g, err := b.start(ctx, spec)
	if err == nil {
		g.end()
	}
	return err
}

// probeSpec returns a spec with an empty directory below the root "workspaces".
func (b *Backend) probeSpec() (sandbox.Spec, func(), error) {
	dir, err := os.MkdirTemp(b.cfg.Roots["workspaces"], "_probe-")
	if err != nil {
		return sandbox.Spec{}, nil, err
	}
	spec := sandbox.Spec{
		Owner: "(probe)", Mounts: []sandbox.Mount{{Target: "/workspace", Root: "workspaces", Name: filepath.Base(dir)}},
		Limits: sandbox.Limits{MemoryBytes: 256 << 20, Processes: 16}.WithDefaults(b.cfg.Defaults),
	}
	ids, err := process.TenantUIDs()
	if err == nil && ids > 0 {
		spec.UID = process.FirstUID + ids - 1
		err = os.Chown(dir, spec.UID, spec.UID)
	}
	return spec, func() { _ = os.RemoveAll(dir) }, err
}

// Open implements sandbox.Backend.
func (b *Backend) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	spec.Limits = spec.Limits.WithDefaults(b.cfg.Defaults)
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	if !b.integrity.Intact(false) {
		return nil, process.Damaged("no sandbox can be opened")
	}
	g, err := b.pool.take(ctx, spec)
	if err != nil && ctx.Err() == nil && !b.integrity.Intact(true) {
		err = process.Damaged("no sandbox can be opened")
	}
	if err != nil {
		return nil, err
	}
	x := &instance{b: b, g: g, limits: spec.Limits}
	for _, m := range spec.Mounts {
		if m.Target == "/workspace" && !m.ReadOnly {
			x.disk = b.quotas.Join(filepath.Join(b.cfg.Roots[m.Root], m.Name), x, spec.Limits)
		}
	}
	return x, nil
}

// Warm starts sandboxes for spec before its first Open.
func (b *Backend) Warm(spec sandbox.Spec) {
	spec.Limits = spec.Limits.WithDefaults(b.cfg.Defaults)
	if checkSpec(spec) == nil {
		b.pool.warm(spec)
	}
}

func checkSpec(spec sandbox.Spec) error {
	if err := spec.Check(name); err != nil {
		return err
	}
	_, err := process.TenantUID(spec.UID)
	return err
}

// Drain waits until no program runs, or ctx ends.
func (b *Backend) Drain(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for b.running.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Close implements sandbox.Backend.
func (b *Backend) Close() error {
	live, closed := b.close()
	if closed {
		return nil
	}
	b.cancel()
	b.pool.close()
	for _, g := range live {
		g.end()
	}
	b.tasks.Wait()
	close(b.starter)
	b.groups.Close()
	err := os.RemoveAll(b.dir)
	_ = os.Remove(b.lock.Path())
	return errors.Join(err, b.lock.Close())
}

// close lets no further sandbox start, and returns those that exist.
func (b *Backend) close() (live []*guest, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, true
	}
	b.closed = true
	return slices.Collect(maps.Keys(b.live)), false
}

// begin lets Close wait for the start of a sandbox, until tasks.Done.
func (b *Backend) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	b.tasks.Add(1)
	return nil
}

// register lets Close end a sandbox that has started.
func (b *Backend) register(g *guest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	b.live[g] = true
	return nil
}

func (b *Backend) forget(g *guest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, g)
}
