package daemon

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/gvisor"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/microvm"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// backendMaker starts the sandbox.
type backendMaker struct {
	cfg     Config
	sandbox policy.Sandbox    // its kind
	roots   map[string]string // of the tenants' data
	log     *slog.Logger
}

// make starts the sandbox, and logs if that fails.
func (m backendMaker) make(ctx context.Context) (sandbox.Backend, error) {
	start := m.cfg.Backend
	switch {
	case start != nil:
	case m.sandbox == policy.GVisor:
		start = m.gVisor
	case m.sandbox == policy.MicroVM:
		start = m.microVM
	default:
		start = m.process
	}
	b, err := start(ctx)
	if err != nil && ctx.Err() == nil {
		m.log.Warn("the sandbox does not work; executions are refused; run sandpiper doctor", "error", err)
	}
	return b, err
}

// process starts the process backend.
func (m backendMaker) process(ctx context.Context) (sandbox.Backend, error) {
	in, err := m.install(ctx)
	if err != nil {
		return nil, err
	}
	b, err := process.New(process.Config{
		Python: in.python.Dir(), Libraries: in.libraries, Packages: in.packages(), Intact: in.intact, Preload: m.cfg.Preload,
		Roots: m.roots, State: dataDir(m.cfg.DataDir).sub("run"), Log: m.log,
		Usage: usage, Reserve: m.cfg.Workspace.Quota.Reserve, OwnNamespaces: m.cfg.Namespaces == "own", Epoll: m.cfg.Epoll,
	})
	if err != nil {
		return nil, errors.Join(err, in.release())
	}
	return processBackend{b, in}, nil
}

// gVisor starts the gvisor backend.
func (m backendMaker) gVisor(ctx context.Context) (sandbox.Backend, error) {
	in, err := m.install(ctx)
	if err != nil {
		return nil, err
	}
	b, err := gvisor.New(ctx, gvisor.Config{
		Runsc:  m.cfg.Runsc,
		Python: in.python.Dir(), Libraries: in.libraries, Packages: in.packages(), Intact: in.intact, Preload: m.cfg.Preload,
		Roots: m.roots, State: dataDir(m.cfg.DataDir).sub("run"), Log: m.log,
		Usage: usage, Reserve: m.cfg.Workspace.Quota.Reserve,
	})
	if err != nil {
		return nil, errors.Join(notNow(err), in.release())
	}
	return gVisorBackend{b, in}, nil
}

// microVM starts the microvm backend.
func (m backendMaker) microVM(ctx context.Context) (sandbox.Backend, error) {
	in, err := m.install(ctx)
	if err != nil {
		return nil, err
	}
	b, err := microvm.New(ctx, microvm.Config{
		Kernel: m.cfg.MicroVM.Kernel, Accel: m.cfg.MicroVM.Accel,
		Python: in.python.Dir(), Libraries: in.libraries, Packages: in.packages(), Intact: in.intact, Preload: m.cfg.Preload,
		Roots: m.roots, Log: m.log,
		MaxMemory: int64(m.cfg.Limits.MaxMemoryMB) << 20, Usage: usage, Reserve: m.cfg.Workspace.Quota.Reserve,
	})
	if err != nil {
		return nil, errors.Join(orProcess(notNow(err), m.cfg.MicroVM.SeedSetting), in.release())
	}
	return microVMBackend{b, in}, nil
}

// orProcess adds to the error of virtual machines that cannot start how a seed's file selects the usual
// sandbox, if such a file selects them.
func orProcess(err error, selected string) error {
	if selected == "" {
		return err
	}
	hint := selected + " selects virtual machines; `sandbox_type: process` there runs code in Sandpiper's own sandbox"
	if more := fault.Hint(err); more != "" {
		hint += "; or, for virtual machines: " + more
	}
	return fault.Wrap(fault.KindOf(err), err, "%s", fault.Message(err)).WithHint("%s", hint)
}

// notNow returns the error of a sandbox that may start later on this machine without the hint to change
// its installation.
func notNow(err error) error {
	if !fault.Inconclusive(err) {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "the sandbox did not start in time").
		WithHint("the machine is busy: run it again in a moment; if that does not help, run `sandpiper doctor`")
}

// checkBackends fails if a sandbox in use needs a program that this machine does not have: that is no
// reason to serve with another isolation, or without execution for some tenants.
func (d sandboxes) checkBackends(ctx context.Context) error {
	if d.cfg.Backend != nil || d.isRelay() {
		return nil
	}
	used := d.cfg.SandboxesInUse()
	for _, s := range slices.Sorted(maps.Keys(used)) {
		var err error
		switch s {
		case policy.GVisor:
			err = gvisor.Check(ctx, gvisor.Config{Runsc: d.cfg.Runsc, State: dataDir(d.cfg.DataDir).sub("run")})
		case policy.MicroVM:
			err = microvm.Check(microvm.Config{Kernel: d.cfg.MicroVM.Kernel, Accel: d.cfg.MicroVM.Accel})
		}
		switch {
		case err != nil && s == d.cfg.Sandbox():
			return orProcess(err, d.cfg.MicroVM.SeedSetting)
		case err != nil:
			return fault.Wrap(fault.KindOf(err), err, "%s: %s", used[s], fault.Message(err)).WithHint("%s", fault.Hint(err))
		}
	}
	return nil
}

// checkReloadedSandboxes fails if a configuration selects a kind of sandbox that nothing used when the
// daemon started: it was not checked, and the daemon may have given up the capabilities that it needs.
func (d reloader) checkReloadedSandboxes(c *config.Config) error {
	started := d.cfg.SandboxesInUse()
	used := c.SandboxesInUse()
	for _, s := range slices.Sorted(maps.Keys(used)) {
		if _, ok := started[s]; !ok {
			return fault.New(fault.Unavailable, "%s selects the sandbox %s, which nothing used when Sandpiper started", used[s], s).
				WithHint("restart Sandpiper")
		}
	}
	return nil
}

// install installs CPython and the packages if necessary.
func (m backendMaker) install(ctx context.Context) (*installation, error) {
	installed, err := python.Install(ctx, python.Config{
		Dir: filepath.Join(m.cfg.CacheDir, "python"), Overlay: worker.Python(Modules(m.cfg.Features)...), Progress: m.cfg.Installing, Log: m.log,
	})
	if err != nil {
		return nil, err
	}
	libraries, err := installed.SystemLibraries()
	if err != nil {
		return nil, errors.Join(err, installed.Close())
	}
	in := &installation{python: installed, libraries: libraries}
	if in.layer, err = m.layer(ctx); err == nil && in.layer != nil {
		err = m.addLibraries(libraries, in.layer, installed)
	}
	if err != nil {
		return nil, errors.Join(err, in.release())
	}
	return in, nil
}

// usage measures the disk usage of a workspace.
func usage(ctx context.Context, dir string) (bytes, files int64, err error) {
	u, err := workspace.Measure(ctx, dir)
	return u.Bytes, u.Files + u.Dirs, err
}

// installation has the files with which backends run code. It is locked until release.
type installation struct {
	python    *python.Installation
	libraries map[string]string // of the host
	layer     *python.Layer     // nil without packages
}

// packages returns the directory of the packages, or "".
func (in *installation) packages() string {
	if in.layer == nil {
		return ""
	}
	return in.layer.Dir()
}

func (in *installation) intact(thorough bool) bool {
	return in.python.Intact(thorough) && (in.layer == nil || in.layer.Intact(thorough))
}

func (in *installation) release() error {
	if in.layer == nil {
		return in.python.Close()
	}
	return errors.Join(in.layer.Close(), in.python.Close())
}

type processBackend struct {
	*process.Backend
	*installation
}

// Close implements sandbox.Backend.
func (b processBackend) Close() error { return errors.Join(b.Backend.Close(), b.release()) }

type gVisorBackend struct {
	*gvisor.Backend
	*installation
}

// Close implements sandbox.Backend.
func (b gVisorBackend) Close() error { return errors.Join(b.Backend.Close(), b.release()) }

type microVMBackend struct {
	*microvm.Backend
	*installation
}

// Close implements sandbox.Backend.
func (b microVMBackend) Close() error { return errors.Join(b.Backend.Close(), b.release()) }
