package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

func (a *app) packagesCommand() *cobra.Command {
	return group("packages", "Choose, install and list Python packages for sandboxes",
		&cobra.Command{
			Use: "lock", Short: "Choose a wheel of everything that is wanted, and write the lock file",
			Long: `Lock has pip resolve what sandbox.packages, sandbox.requirements or sandbox.wheels
want, from the index that pip is configured for here, and writes the lock file beside
the configuration: one wheel for each package, with its hash. Only wheels are taken;
nothing is built, installed or run.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.runPackagesLock(cmd.Context()) },
		},
		&cobra.Command{
			Use: "install", Short: "Download the wheels of the lock file and make them importable",
			Long: `Install downloads exactly the wheels of the lock file, holds each against its hash,
and unpacks them into a directory in the cache that sandboxes show read-only. Daemons
use it from their next start.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.runPackagesInstall(cmd.Context()) },
		},
		&cobra.Command{
			Use: "list", Short: "List the packages of the lock file, and say whether they are installed",
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.runPackagesList(cmd.Context()) },
		},
	)
}

// packages is what the configuration says of packages, and the Python for them.
func (a *app) packages(ctx context.Context, f func(packages.Config, *python.Installation) error) error {
	cfg, err := a.load(nil)
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		a.warn(w)
	}
	in, err := python.Install(ctx, python.Config{
		Dir: filepath.Join(cfg.CacheDir, "python"), Overlay: worker.Python(), Progress: a.installing(preparing),
	})
	if err != nil {
		return err
	}
	defer in.Close()
	cfg.Packages.Progress = a.installing("Unpacking the packages.")
	return f(cfg.Packages, in)
}

func (a *app) runPackagesLock(ctx context.Context) error {
	return a.packages(ctx, func(cfg packages.Config, in *python.Installation) error {
		lock, err := packages.Resolve(ctx, cfg, in)
		if err != nil {
			return err
		}
		if a.json {
			return a.writeJSON(map[string]any{"lock": cfg.LockFile, "packages": lock.Packages})
		}
		a.printPackages(lock)
		a.printf("written to %s; `sandpiper packages install` installs them\n", visibleName(cfg.LockFile))
		return nil
	})
}

func (a *app) printPackages(lock *packages.Lock) {
	for _, p := range lock.Packages {
		a.printf("%-24s %s\n", visibleName(p.Name), visibleName(p.Version))
	}
}

func (a *app) runPackagesInstall(ctx context.Context) error {
	return a.packages(ctx, func(cfg packages.Config, in *python.Installation) error {
		layer, lock, err := packages.Install(ctx, cfg, in)
		if err != nil {
			return err
		}
		defer layer.Close()
		if why := lock.StaleReason(cfg); why != "" {
			a.warn(why + "; `sandpiper packages lock` makes it again")
		}
		_, missing, err := layer.SystemLibraries(in)
		if err != nil {
			return err
		}
		for _, name := range missing {
			a.warn("this host has no " + name + ", which some packages load: what needs it cannot be imported")
		}
		if a.json {
			return a.writeJSON(map[string]any{"dir": layer.Dir(), "packages": lock.Packages, "missing": append([]string{}, missing...)})
		}
		a.printf("%s, %s in %s\n", installed(len(lock.Packages)), megabytes(layer.Dir()), visibleName(layer.Dir()))
		return nil
	})
}

func (a *app) runPackagesList(ctx context.Context) error {
	cfg, err := a.load(nil)
	if err != nil {
		return err
	}
	s := statePackages(ctx, cfg.Packages)
	if a.json {
		return a.writeJSON(s)
	}
	if s.lock != nil {
		a.printPackages(s.lock)
	}
	a.printf("%s\n", visible(s.String()))
	return nil
}

// packagesState is what there is of what is wanted.
type packagesState struct {
	Wanted    bool               `json:"wanted"`
	Installed bool               `json:"installed"`
	Packages  []packages.Package `json:"packages"`
	Problem   string             `json:"problem,omitempty"`
	Hint      string             `json:"hint,omitempty"`
	lock      *packages.Lock
}

func statePackages(ctx context.Context, cfg packages.Config) packagesState {
	s := packagesState{Wanted: !cfg.IsEmpty(), Packages: []packages.Package{}}
	if !s.Wanted {
		return s
	}
	layer, lock, err := packages.Open(ctx, cfg)
	if lock != nil {
		s.lock, s.Packages = lock, lock.Packages
		s.Problem, s.Hint = lock.StaleReason(cfg), "run `sandpiper packages lock`, then `sandpiper packages install`"
	}
	if err != nil {
		s.Problem, s.Hint = fault.Message(err), fault.Hint(err)
	} else {
		s.Installed = layer.Close() == nil
	}
	if s.Problem == "" {
		s.Hint = ""
	}
	return s
}

func (s packagesState) String() string {
	text := installed(len(s.Packages))
	switch {
	case !s.Wanted:
		return "no packages are wanted: code has the standard library"
	case !s.Installed:
		text = s.Problem
	case s.Problem != "":
		text += ", but " + s.Problem
	}
	if s.Hint != "" {
		text += "; " + s.Hint
	}
	return text
}

func installed(n int) string {
	if n == 1 {
		return "1 package is installed"
	}
	return fmt.Sprintf("%d packages are installed", n)
}

// megabytes says how large a directory is.
func megabytes(dir string) string {
	var n int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return fmt.Sprintf("%d MB", (n+1<<20-1)>>20)
}

// load reads the configuration from here.
func (a *app) load(flags map[string]string) (*config.Config, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	cfg, err := config.Load(config.Sources{Dir: dir, File: a.config, Environ: os.Environ(), Flags: flags})
	if err != nil {
		return nil, err
	}
	if !a.untrusted && len(cfg.Untrusted) > 0 {
		a.warn("not read, since you have not trusted it: " + strings.Join(cfg.Untrusted, ", ") + " in " + dir + "; sandpiper trust shows what it would do")
	}
	a.untrusted = true
	return cfg, nil
}
