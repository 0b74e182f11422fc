package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// A release for a system without a sandbox includes an image of Sandpiper for Linux, which
// serve runs in a container.

const (
	imageFile   = "sandpiper-image.tar" // in the format of docker save
	seccompFile = "seccomp.json"
	imagePort   = "8765"
)

// container is a run of the image.
type container struct {
	engine string // path of docker, podman or nerdctl
	image  string // its id
	dir    string // contains imageFile and seccompFile
}

// newContainer finds the image and a container engine, and loads the image if it was not.
func newContainer(ctx context.Context, env *cli.Env) (*container, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(program); err == nil {
		program = real
	}
	c := &container{}
	for _, dir := range []string{filepath.Dir(program), filepath.Join(filepath.Dir(program), "../share/sandpiper")} {
		if _, err := os.Stat(filepath.Join(dir, imageFile)); err == nil {
			c.dir = dir
			break
		}
	}
	if c.dir == "" {
		return nil, fault.New(fault.Unavailable, "the sandbox needs Linux, and there is no %s beside %s", imageFile, program).
			WithHint("install a release, whose archives for macOS and Windows contain it, or run sandpiper on Linux")
	}
	if c.image, err = imageID(filepath.Join(c.dir, imageFile)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(c.dir, imageFile), err)
	}
	for _, name := range []string{"docker", "podman", "nerdctl"} {
		if c.engine, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the sandbox needs Linux, and there is no docker, podman or nerdctl in PATH that runs "+
			"the image").
			WithHint("install and start Docker Desktop, Podman or Rancher Desktop")
	}
	return c, load(ctx, env, c)
}

// load loads the image into the engine. It is never pulled.
func load(ctx context.Context, env *cli.Env, c *container) error {
	if exec.CommandContext(ctx, c.engine, "image", "inspect", c.image).Run() == nil {
		return nil
	}
	env.Warn("loading the image into " + filepath.Base(c.engine) + ", once")
	out, err := exec.CommandContext(ctx, c.engine, "load", "-i", filepath.Join(c.dir, imageFile)).CombinedOutput()
	if err != nil {
		return fault.New(fault.Unavailable, "%s cannot load the image: %v: %.300s", filepath.Base(c.engine), err,
			strings.TrimSpace(string(out))).
			WithHint("check that the engine runs: %s info", filepath.Base(c.engine))
	}
	return nil
}

// imageID returns the id of the image in an archive.
func imageID(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		if err == io.EOF {
			return "", errors.New("it has no manifest.json: it is not an image")
		}
		if err != nil {
			return "", err
		}
		if h.Name != "manifest.json" {
			continue
		}
		var images []struct{ Config string }
		if err := json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&images); err != nil || len(images) != 1 {
			return "", fmt.Errorf("its manifest.json describes %d images: %w", len(images), err)
		}
		return images[0].Config, nil
	}
}

// arguments are those of the engine. The container has the isolation of docs/deploy.md, the
// user's configuration, and a volume for everything that is stored.
func (c *container) arguments(settings string, serve []string, addr string) ([]string, error) {
	args := []string{"run", "--rm", "--interactive", "--pull", "never", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "all",
		"--security-opt", "no-new-privileges", "--security-opt", "seccomp=" + filepath.Join(c.dir, seccompFile), "--volume",
		"sandpiper-data:/data"}
	if name := filepath.Base(c.engine); strings.HasPrefix(name, "docker") {
		args = append(args, "--security-opt", "apparmor=unconfined") // Docker's own profile denies mounts
	}
	if _, err := os.Stat(settings); err == nil {
		args = append(args, "--volume", settings+":/etc/sandpiper:ro")
	}
	if addr != "" {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, cli.Usagef("--http %s: %v; use HOST:PORT, such as 127.0.0.1:8765", addr, err)
		}
		args = append(args, "--publish", net.JoinHostPort(host, port)+":"+imagePort, "--env", "SANDPIPER_HTTP_TOKEN")
		serve = append(serve, "--http", "0.0.0.0:"+imagePort)
	}
	return append(append(args, c.image, "serve"), serve...), nil
}

// serveInContainer runs serve with the given flags in a container until it ends.
func serveInContainer(ctx context.Context, env *cli.Env, flags []string, addr string) error {
	if env.ConfigFile != "" {
		return cli.Usagef("--config cannot be used here: the container reads the configuration directory of the user")
	}
	c, err := newContainer(ctx, env)
	if err != nil {
		return err
	}
	args, err := c.arguments(config.UserDir(os.Environ()), flags, addr)
	if err != nil {
		return err
	}
	run := exec.CommandContext(ctx, c.engine, args...)
	run.Stdin, run.Stdout, run.Stderr = env.Stdin, env.Stdout, env.Stderr
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	run.WaitDelay = 30 * time.Second
	err = run.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return cli.Exit(e.ExitCode()) // what went wrong is in its output
	}
	return err
}

// containerFlags are the flags of serve that the container gets.
func containerFlags(c *cobra.Command) (flags []string) {
	for _, name := range []string{"profile", "tenant"} {
		if f := c.Flags().Lookup(name); f.Changed {
			flags = append(flags, "--"+name, f.Value.String())
		}
	}
	return flags
}
