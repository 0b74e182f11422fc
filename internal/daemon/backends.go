package daemon

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
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
	if start == nil {
		start = m.start
	}
	b, err := start(ctx)
	if err != nil && ctx.Err() == nil {
		m.log.Warn("the sandbox does not work; executions are refused; run sandpiper doctor", "error", err)
	}
	return b, err
}

func (m backendMaker) start(ctx context.Context) (sandbox.Backend, error) {
	kind, err := backendOf(m.cfg.Features, m.sandbox)
	if err != nil {
		return nil, err
	}
	in, err := m.install(ctx)
	if err != nil {
		return nil, err
	}
	b, err := kind.Start(ctx, &m.cfg.Config, sandbox.Config{
		Python:    in.python.Dir(),
		Libraries: in.libraries,
		Packages:  in.packages(),
		Intact:    in.intact,
		Preload:   m.cfg.Preload,
		Roots:     m.roots,
		State:     dataDir(m.cfg.DataDir).sub("run"),
		Usage:     usage,
		Reserve:   m.cfg.Workspace.Quota.Reserve,
		Log:       m.log,
	})
	if err != nil {
		return nil, errors.Join(err, in.release())
	}
	return installedBackend{b, in}, nil
}

// backendOf returns a kind of sandbox: that of the core, or of a feature.
func backendOf(features []Feature, s policy.Sandbox) (Backend, error) {
	if s == policy.Process {
		return Backend{Start: startProcess}, nil
	}
	for _, f := range features {
		if f.Backend.Start != nil && f.Config.Sandbox.Sandbox == s {
			return f.Backend, nil
		}
	}
	return Backend{}, fault.New(fault.Unavailable, "this program does not have the sandbox %s", s)
}

// startProcess starts the process backend.
func startProcess(_ context.Context, c *config.Config, common sandbox.Config) (sandbox.Backend, error) {
	return process.New(process.Config{Config: common, OwnNamespaces: c.Namespaces == "own", Epoll: c.Epoll})
}

// checkBackends fails if a sandbox in use needs a program that this machine does not have: that is no
// reason to serve with another isolation, or without execution for some tenants.
func (d sandboxes) checkBackends(ctx context.Context) error {
	if d.cfg.Backend != nil || d.isRelay() {
		return nil
	}
	used := d.cfg.SandboxesInUse()
	for _, s := range slices.SortedFunc(maps.Keys(used), byName) {
		kind, err := backendOf(d.cfg.Features, s)
		if err == nil && kind.Check != nil {
			err = kind.Check(ctx, &d.cfg.Config, sandbox.Config{State: dataDir(d.cfg.DataDir).sub("run")})
		}
		switch {
		case err != nil && s == d.cfg.Sandbox():
			return err
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
	for _, s := range slices.SortedFunc(maps.Keys(used), byName) {
		if _, ok := started[s]; !ok {
			return fault.New(fault.Unavailable, "%s selects the sandbox %s, which nothing used when Sandpiper started", used[s], s).
				WithHint("restart Sandpiper")
		}
	}
	return nil
}

func byName(a, b policy.Sandbox) int { return strings.Compare(a.Name, b.Name) }

// install installs CPython and the packages if necessary.
func (m backendMaker) install(ctx context.Context) (*installation, error) {
	installed, err := python.Install(ctx, python.Config{
		Dir: filepath.Join(m.cfg.CacheDir, "python"), Overlay: worker.Python(Modules(m.cfg.Features)...), Progress: m.cfg.Installing,
		Log: m.log,
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

// installedBackend is a backend with the files that it runs code with, which it releases when it is closed.
type installedBackend struct {
	sandbox.Backend
	in *installation
}

// Close implements sandbox.Backend.
func (b installedBackend) Close() error { return errors.Join(b.Backend.Close(), b.in.release()) }

// ability returns an optional ability of a backend.
func ability[T any](b sandbox.Backend) (able T, ok bool) {
	if in, installed := b.(installedBackend); installed {
		b = in.Backend
	}
	able, ok = b.(T)
	return able, ok
}
