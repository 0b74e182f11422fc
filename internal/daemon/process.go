package daemon

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// process installs CPython if need be and starts the sandbox of this machine's
// kernel.
func (d *Daemon) process(ctx context.Context) (sandbox.Backend, error) {
	installed, err := python.Install(ctx, python.Config{
		Dir: filepath.Join(d.cfg.CacheDir, "python"), Overlay: worker.Python(), Progress: d.cfg.Installing, Log: d.log,
	})
	if err != nil {
		return nil, err
	}
	libraries, err := installed.SystemLibraries()
	if err != nil {
		return nil, errors.Join(err, installed.Close())
	}
	b, err := process.New(process.Config{
		Python: installed.Dir(), Libraries: libraries,
		Roots: d.Tenants.Roots(), State: d.dir("run"), Log: d.log,
	})
	if err != nil {
		return nil, errors.Join(err, installed.Close())
	}
	return withPython{b, installed}, nil
}

// withPython keeps the installation in use for as long as the backend.
type withPython struct {
	*process.Backend
	python *python.Installation
}

// Close implements sandbox.Backend.
func (w withPython) Close() error { return errors.Join(w.Backend.Close(), w.python.Close()) }
