package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// options are the settings of a daemon that differ between commands.
type options struct {
	flags  map[string]string // configuration keys given as flags
	output func(item []byte) // see daemon.Config
	warm   bool              // see daemon.Config
	served bool              // serves HTTP
	quiet  bool              // no log on stderr, except at debug level
	tenant tenant.ID         // see daemon.Config
	model  string            // replaces the model of tasks; "" means the configured one
	// dataDir replaces the data directory; "" means the configured one.
	dataDir string

	reloads <-chan os.Signal // see daemon.Config
}

// daemon creates the daemon for a command.
func openDaemon(env *app, o options) (*daemon.Daemon, error) {
	cfg, err := loadConfig(env, o.flags)
	if err != nil {
		return nil, err
	}
	if o.model != "" {
		if err := cfg.SetTaskModel(o.model); err != nil {
			return nil, err
		}
	}
	if o.output != nil { // the command is about to run code
		warnOfPackages(env, cfg)
	}
	cfg.DataDir = cmp.Or(o.dataDir, cfg.DataDir)
	log := env.stderr
	if o.quiet && cfg.Log.Level > slog.LevelDebug {
		log = nil
		for _, w := range cfg.Warnings {
			env.warn(w)
		}
		cfg.Warnings = nil
	}
	return daemon.New(daemon.Config{
		Config: *cfg, Version: buildVersion(), Stderr: log, Console: env.stderr, Installing: installProgress(env, preparingPython), Output: o.output, Warm: o.warm, Served: o.served, Tenant: o.tenant, ConfigFile: absoluteFile(cmp.Or(env.config, os.Getenv("SANDPIPER_CONFIG"))),
		Load: func() (*config.Config, error) { return loadConfig(env, o.flags) }, Reloads: o.reloads,
	})
}

// warnOfPackages warns of package layers that cannot be used.
func warnOfPackages(env *app, cfg *config.Config) {
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
			env.warn(what + errorText(err))
		}
	}
}

// preparingPython is printed when Python is unpacked.
const preparingPython = "Preparing Python for its first use; this happens once."

// installProgress returns a function that prints title and then the progress of an
// installation, or nil without a terminal.
func installProgress(env *app, title string) func(stage string, done, total int) {
	if !isTerminal(env.stderr) {
		return nil
	}
	var once sync.Once
	return func(stage string, done, total int) {
		once.Do(func() { fmt.Fprintln(env.stderr, title) })
		env.installing.Store(done < total)
		end := "\r"
		if done == total {
			end = "\n"
		}
		fmt.Fprintf(env.stderr, "  %-8s %d of %d files%s", stage, done, total, end)
	}
}

// loadConfig loads the configuration for the working directory. The first time, it enters the user
// namespace with subordinate ids that the configuration asks for, and warns about files that are
// not trusted.
func loadConfig(env *app, flags map[string]string) (*config.Config, error) {
	cfg, err := daemon.Load(config.Sources{File: env.config, Flags: flags})
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
		env.warn("not read, because it is not trusted: " + strings.Join(cfg.Untrusted, ", ") + " in " + dir + "; `sandpiper trust` shows its effects")
	}
	env.loaded = true
	return cfg, nil
}
