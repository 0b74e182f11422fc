// Package rig drives the built program from outside, as its users do: one
// command at a time, or behind MCP over stdio or HTTP. What measures the program
// and what tries to break it stand on it.
//
// A Rig is a program with data, cache and configuration directories of its own,
// so that it neither reads nor changes what the person at this machine has. A
// Daemon is one `serve` of it, a Client one MCP connection. Process tables,
// mounts and control groups are read where the machine is Linux; elsewhere they
// are empty.
//
// Everything may be used concurrently. The package imports no room that runs in
// a daemon: it knows what a client can know, and what the kernel shows.
package rig

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// Config of a Rig.
type Config struct {
	Binary string // the program, relative to the working directory if it is not absolute; required
	Dir    string // its directories are made in here; required, absolute
	Cache  string // where Python is installed; "" means in Dir
}

// Rig is a program and its directories.
type Rig struct{ cfg Config }

// New makes a Rig. It does nothing yet.
func New(cfg Config) *Rig {
	if cfg.Cache == "" {
		cfg.Cache = filepath.Join(cfg.Dir, "cache")
	}
	if path, err := filepath.Abs(cfg.Binary); err == nil {
		cfg.Binary = path // commands run in directories of their own
	}
	return &Rig{cfg}
}

// Data is the data directory.
func (r *Rig) Data() string { return filepath.Join(r.cfg.Dir, "data", "sandpiper") }

// Binary is the program, by its whole path.
func (r *Rig) Binary() string { return r.cfg.Binary }

// Dir is where its directories are.
func (r *Rig) Dir() string { return r.cfg.Dir }

// Command is the program with these arguments, in an environment that holds
// nothing of this one's but the path and the place for temporary files.
func (r *Rig) Command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, r.cfg.Binary, args...)
	c.Args[0] = "sandpiper" // a test binary that holds the program goes by this
	c.Dir = r.cfg.Dir
	c.Env = []string{
		"HOME=" + r.cfg.Dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(),
		"XDG_DATA_HOME=" + filepath.Join(r.cfg.Dir, "data"),
		"XDG_CONFIG_HOME=" + filepath.Join(r.cfg.Dir, "config"),
		"XDG_CACHE_HOME=" + r.cfg.Cache,
	}
	c.WaitDelay = 10 * time.Second
	return c
}

// Run runs one command to its end and returns what it printed.
func (r *Rig) Run(ctx context.Context, args ...string) ([]byte, error) {
	c := r.Command(ctx, args...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return out, fmt.Errorf("sandpiper %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// Ready runs a first execution. If this machine has no sandbox it says so, and
// why.
func (r *Rig) Ready(ctx context.Context) error {
	_, err := r.Run(ctx, "exec", "-c", "1")
	if err == nil || ctx.Err() != nil {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "code cannot be executed here").WithHint("sandpiper doctor says why")
}

// Bare returns the program file of the embedded CPython, to be run without
// anything around it, and what to call when it is no longer needed.
func (r *Rig) Bare(ctx context.Context) (program string, done func() error, err error) {
	in, err := python.Install(ctx, python.Config{
		Dir: filepath.Join(r.cfg.Cache, "sandpiper", "python"), Overlay: worker.Python(),
	})
	if err != nil {
		return "", nil, err
	}
	major := strings.Join(strings.Split(in.Version(), ".")[:2], ".")
	return filepath.Join(in.Dir(), "bin", "python"+major), in.Close, nil
}

// Build builds the program of the module that the working directory is in, into
// dir, and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "sandpiper")
	c := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/sandpiper-mcp/sandpiper/cmd/sandpiper")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
}
