package daemon

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// backendMaker starts the sandbox.
type backendMaker struct {
	cfg   Config
	roots map[string]string // of the tenants' data
	log   *slog.Logger
}

// make starts the sandbox, and logs if that fails.
func (m backendMaker) make(ctx context.Context) (sandbox.Backend, error) {
	start := m.cfg.Backend
	if start == nil {
		start = m.process
	}
	b, err := start(ctx)
	if err != nil && ctx.Err() == nil {
		m.log.Warn("the sandbox does not work; executions are refused; run sandpiper doctor", "error", err)
	}
	return b, err
}

// process installs CPython if necessary and starts the process backend.
func (m backendMaker) process(ctx context.Context) (sandbox.Backend, error) {
	installed, err := python.Install(ctx, python.Config{
		Dir: filepath.Join(m.cfg.CacheDir, "python"), Overlay: worker.Python(), Progress: m.cfg.Installing, Log: m.log,
	})
	if err != nil {
		return nil, err
	}
	libraries, err := installed.SystemLibraries()
	if err != nil {
		return nil, errors.Join(err, installed.Close())
	}
	cfg := process.Config{
		Python: installed.Dir(), Libraries: libraries, Preload: m.cfg.Preload,
		Roots: m.roots, State: dataDir(m.cfg.DataDir).sub("run"), Log: m.log,
		Usage: usage, Reserve: m.cfg.Workspace.Quota.Reserve,
	}
	layer := m.layer(ctx)
	if layer != nil {
		cfg.Packages = layer.Dir()
		m.addLibraries(cfg.Libraries, layer, installed)
	}
	cfg.Intact = func(thorough bool) bool {
		return installed.Intact(thorough) && (layer == nil || layer.Intact(thorough))
	}
	b, err := process.New(cfg)
	w := withPython{b, installed, layer}
	if err != nil {
		return nil, errors.Join(err, w.release())
	}
	return w, nil
}

// usage measures the disk usage of a workspace.
func usage(ctx context.Context, dir string) (bytes, files int64, err error) {
	u, err := workspace.Measure(ctx, dir)
	return u.Bytes, u.Files + u.Dirs, err
}

// withPython keeps the installation and the packages locked while the backend is open.
type withPython struct {
	*process.Backend
	python *python.Installation
	layer  *python.Layer // nil without packages
}

// Close implements sandbox.Backend.
func (w withPython) Close() error { return errors.Join(w.Backend.Close(), w.release()) }

func (w withPython) release() error {
	if w.layer == nil {
		return w.python.Close()
	}
	return errors.Join(w.layer.Close(), w.python.Close())
}
