package gvisor

import (
	"context"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
)

// program is a runsc with the version and the flags that the backend needs.
type program struct {
	path    string
	version string
}

// flags are those of every runsc command. A runsc that lacks one is too old.
var flags = []string{
	"--platform=systrap", // no requirements to the host; ptrace is slower, and kvm needs /dev/kvm
	"--network=none",
	"--ignore-cgroups",              // as root, the daemon places runsc in a cgroup
	"--overlay2=none",               // files of the workspace are those of the host
	"--gofer-network-namespace=new", // the default leaves a mount
	"--host-uds=none", "--host-fifo=none", "--directfs=true",
}

// checkTime bounds each command of runsc that ends.
const checkTime = 10 * time.Second

const (
	install = "install a current runsc, as in https://gvisor.dev/docs/user_guide/install/, and set sandbox.runsc to its path if it is " +
		"not on PATH; " +
		"or set sandbox.backend to process, which relies on the host's kernel"
	tested = "v0.0.0-20260905035102-160fafc42237"
)

// Check fails as New does if there is no runsc that is recent enough, or if the path of the state
// directory is too long. It opens no sandbox.
func Check(ctx context.Context, cfg Config) error {
	if _, err := findProgram(ctx, cfg.Runsc); err != nil {
		return err
	}
	return checkPath(filepath.Join(cfg.State, newName()))
}

// findProgram returns the runsc at path, or on PATH, after testing that it has the flags.
func findProgram(ctx context.Context, path string) (program, error) {
	found, err := exec.LookPath(defaultName(path))
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return program{}, fault.Wrap(fault.Unavailable, err,
			"gVisor's program %s was not found, so nothing is executed in the sandbox gvisor", defaultName(path)).
			WithHint("%s", install)
	}
	p := program{path: found}
	out, err := p.output(ctx, "--version")
	line, _, _ := strings.Cut(out, "\n")
	version, ok := strings.CutPrefix(line, "runsc version ")
	if err != nil || !ok {
		return p, fault.Wrap(fault.Unavailable, err, "%s is not gVisor's runsc: its --version printed %.100q", found, line).
			WithHint("%s", install)
	}
	p.version = p.buildVersion(version)
	known, err := p.output(ctx, "flags")
	if err != nil {
		return p, fault.Wrap(fault.Unavailable, err, "%s flags failed", found).WithHint("%s", install)
	}
	if missing := missingFlags(known); len(missing) > 0 {
		return p, fault.New(fault.Unavailable, "%s (version %s) is too old: it does not have %s", found, p.version,
			strings.Join(missing, ", ")).
			WithHint("version %s works; %s", tested, install)
	}
	return p, nil
}

func defaultName(path string) string {
	if path == "" {
		return "runsc"
	}
	return path
}

// missingFlags returns the flags that a runsc with this description does not have, and its
// missing platform.
func missingFlags(known string) []string {
	var missing []string
	for _, f := range flags {
		name, value, _ := strings.Cut(f, "=")
		about := regexp.MustCompile(`(?m)^  -` + strings.TrimPrefix(name, "--") + `\b.*\n.*`).FindString(known)
		if about == "" || name == "--platform" && !strings.Contains(about, value) {
			missing = append(missing, f)
		}
	}
	return missing
}

// buildVersion returns the version that runsc prints, or that of its module if it was built by
// go install and prints none.
func (p program) buildVersion(printed string) string {
	info, err := buildinfo.ReadFile(p.path)
	if printed == "VERSION_MISSING" && err == nil {
		return info.Main.Version
	}
	return printed
}

func (p program) output(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env, cmd.Dir = environment, "/"
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// environment of runsc: nothing of the daemon's.
var environment = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}

// control runs a command for the container whose state is in dir.
func (p program) control(ctx context.Context, dir string, command ...string) (string, error) {
	return p.output(ctx, p.command(dir, command...)[1:]...)
}

// command returns the arguments of a command for the container whose state is in dir.
func (p program) command(dir string, command ...string) []string {
	args := append([]string{p.path, "--root=" + dir}, flags...)
	if os.Geteuid() != 0 {
		args = append(args, "--rootless")
	}
	return append(args, command...)
}

// channelFD is the descriptor of the channel in runsc and in the worker.
const channelFD = 3

// starter starts processes that die with the daemon. The kernel sends the parent death
// signal when the thread ends that started them, so one thread starts all and lives as long
// as the backend.
type starter chan func()

func newStarter() starter {
	s := make(starter)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for f := range s {
			f()
		}
	}()
	return s
}

// start starts cmd in a cgroup, which may be nil.
func (s starter) start(cmd *exec.Cmd, group *process.Cgroup) error {
	done := make(chan error)
	s <- func() { done <- group.Start(cmd) }
	return <-done
}
