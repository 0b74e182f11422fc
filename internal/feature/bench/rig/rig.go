// Package rig runs the built program as its users do: by commands, or as an MCP server
// over stdio or HTTP. The packages that measure or stress the program use it, also those of the module
// in bench/.
//
// A Rig is a program with its own data, cache and configuration directories, so that
// it does not read or change those of the user. A Daemon is one running `serve`, a
// Client one MCP connection. Processes and their memory are read on Linux only; on other
// systems there are none.
//
// Everything is safe for concurrent use. The package uses only information that is
// available to a client or from the kernel; it imports no package of the daemon.
package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Config of a Rig.
type Config struct {
	Binary string // path of the program, relative to the working directory unless absolute; required
	Dir    string // parent of its directories, absolute; required
	Cache  string // where Python is installed; "" means inside Dir
	Token  string // bearer token of HTTP clients; "" means none
}

// Rig is a program and its directories.
type Rig struct{ cfg Config }

// New returns a Rig. It does no I/O.
func New(cfg Config) *Rig {
	if cfg.Cache == "" {
		cfg.Cache = filepath.Join(cfg.Dir, "cache")
	}
	if path, err := filepath.Abs(cfg.Binary); err == nil {
		cfg.Binary = path // commands run in other directories
	}
	return &Rig{cfg}
}

// Data returns the data directory.
func (r *Rig) Data() string { return filepath.Join(r.cfg.Dir, "data", "sandpiper") }

// Binary returns the absolute path of the program.
func (r *Rig) Binary() string { return r.cfg.Binary }

// Dir returns the parent of its directories.
func (r *Rig) Dir() string { return r.cfg.Dir }

// Command returns a command of the program with these arguments. Its environment has
// only PATH and TMPDIR in common with that of this process.
func (r *Rig) Command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, r.cfg.Binary, args...)
	c.Args[0] = "sandpiper" // selects the program in a test binary that contains it
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

// Configure writes the configuration file that the program reads.
func (r *Rig) Configure(settings Args) error {
	_, err := WriteConfig(filepath.Join(r.cfg.Dir, "config", "sandpiper"), settings)
	return err
}

// WriteConfig writes a configuration file in dir, for --config, and returns its path.
func WriteConfig(dir string, settings Args) (string, error) {
	text, err := json.Marshal(settings)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "sandpiper.yaml")
	return file, os.WriteFile(file, text, 0o600) // JSON is valid YAML
}

// Upstream returns the configuration of an upstream server: the program with data of its
// own, whose tools answer at once.
func (r *Rig) Upstream() any {
	env := map[string]string{"XDG_DATA_HOME": filepath.Join(r.cfg.Dir, "upstream", "data"), "XDG_CACHE_HOME": r.cfg.Cache}
	return map[string]any{"command": r.cfg.Binary, "args": []string{"serve", "--profile", "full"}, "env": env}
}

// Run runs one command and returns its standard output.
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

// Ready runs a first execution. It returns an Unavailable fault if this machine has no
// sandbox.
func (r *Rig) Ready(ctx context.Context) error {
	_, err := r.Run(ctx, "exec", "-c", "1")
	if err == nil || ctx.Err() != nil {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "this machine cannot execute code").WithHint("run sandpiper doctor to find the reason")
}

// Bare returns the path of the embedded CPython, which runs without a sandbox. It is there once the rig is ready.
func (r *Rig) Bare() (string, error) {
	found, _ := filepath.Glob(filepath.Join(r.cfg.Cache, "sandpiper", "python", "*", "root", "bin", "python3.*"))
	if len(found) == 0 {
		return "", fmt.Errorf("there is no Python in %s", r.cfg.Cache)
	}
	return found[0], nil
}
