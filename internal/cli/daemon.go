package cli

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Options are the settings of a daemon that differ between commands.
type Options struct {
	Flags  map[string]string // configuration keys given as flags
	Output func(item []byte) // see daemon.Config
	warm   bool              // see daemon.Config
	Served bool              // serves HTTP
	Quiet  bool              // no log on stderr, except at debug level
	Tenant tenant.ID         // see daemon.Config
	// Change changes the configuration before the daemon has it; nil changes nothing.
	Change func(*config.Config) error
	// DataDir replaces the data directory; "" means the configured one.
	DataDir string

	Reloads <-chan os.Signal // see daemon.Config
}

// OpenDaemon creates the daemon for a command.
func OpenDaemon(env *Env, o Options) (*daemon.Daemon, error) {
	cfg, err := LoadConfig(env, o.Flags)
	if err != nil {
		return nil, err
	}
	if o.Change != nil {
		if err := o.Change(cfg); err != nil {
			return nil, err
		}
	}
	if o.Output != nil { // the command is about to run code
		warnOfPackages(env, cfg)
	}
	cfg.DataDir = cmp.Or(o.DataDir, cfg.DataDir)
	log := env.Stderr
	if o.Quiet && cfg.Log.Level > slog.LevelDebug {
		log = nil
		for _, w := range cfg.Warnings {
			env.Warn(w)
		}
		cfg.Warnings = nil
	}
	return daemon.New(daemon.Config{
		Config:     *cfg,
		Version:    env.Version,
		Features:   env.Features,
		Stderr:     log,
		Console:    env.Stderr,
		Installing: InstallProgress(env, PreparingPython),
		Output:     o.Output,
		Warm:       o.warm,
		Served:     o.Served,
		Tenant:     o.Tenant,
		ConfigFile: absoluteFile(cmp.Or(env.ConfigFile, os.Getenv("SANDPIPER_CONFIG"))),
		Load:       func() (*config.Config, error) { return LoadConfig(env, o.Flags) },
		Reloads:    o.Reloads,
	})
}

// warnOfPackages warns of package layers that cannot be used.
func warnOfPackages(env *Env, cfg *config.Config) {
	for _, name := range cfg.PackageLayersInUse() {
		l := cfg.Layer(name)
		if l.IsEmpty() {
			continue
		}
		if _, err := packages.Stat(l.Config); err != nil {
			what := "code runs without packages: "
			if len(cfg.PackageLayers) > 0 {
				what = "code of the package layer " + name + " runs without packages: "
			}
			env.Warn(what + fault.Sentence(err))
		}
	}
}

// PreparingPython is printed when Python is unpacked.
const PreparingPython = "Preparing Python for its first use; this happens once."

// InstallProgress returns a function that prints title and then the progress of an
// installation, or nil without a terminal.
func InstallProgress(env *Env, title string) func(stage string, done, total int) {
	if !IsTerminal(env.Stderr) {
		return nil
	}
	var once sync.Once
	return func(stage string, done, total int) {
		once.Do(func() { fmt.Fprintln(env.Stderr, title) })
		env.installing.Store(done < total)
		end := "\r"
		if done == total {
			end = "\n"
		}
		fmt.Fprintf(env.Stderr, "  %-8s %d of %d files%s", stage, done, total, end)
	}
}

// LoadConfig loads the configuration for the working directory. The first time, it enters the user
// namespace with subordinate ids that the configuration asks for, and warns about files that are
// not trusted.
func LoadConfig(env *Env, flags map[string]string) (*config.Config, error) {
	cfg, err := daemon.Load(config.Sources{File: env.ConfigFile, Flags: flags, Features: daemon.Sections(env.Features)})
	if err != nil {
		return nil, err
	}
	if cfg.SubordinateUIDs && !env.loaded {
		if err := process.EnterSubordinate(); err != nil {
			return nil, err
		}
	}
	if !env.loaded && len(cfg.Untrusted) > 0 {
		dir, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("find the working directory: %w", err)
		}
		env.Warn("not read, because it is not trusted: " + strings.Join(cfg.Untrusted,
			", ") + " in " + dir + "; `sandpiper trust` shows its effects")
	}
	env.loaded = true
	return cfg, nil
}

// HintDaemon reports whether a daemon serves the data directory, and prints a warning if none does.
func HintDaemon(env *Env, d *daemon.Daemon) bool {
	if !NoDaemon(d) {
		return true
	}
	env.Warn("no daemon is running, so that nothing runs in the background")
	env.Hint("start `sandpiper serve --http 127.0.0.1:8765` in another terminal, or an MCP client that starts Sandpiper")
	return false
}

// NoDaemon reports whether no daemon serves the data directory.
func NoDaemon(d *daemon.Daemon) bool {
	all, err := daemon.Instances(d)
	return err == nil && len(all) == 0
}
