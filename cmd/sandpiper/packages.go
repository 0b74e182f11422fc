package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

func (a *app) packagesCommand() *cobra.Command {
	return group("packages", "Lock, install and list Python packages for sandboxes",
		&cobra.Command{
			Use: "lock", Short: "Resolve the configured packages and write the lock file",
			Long: `Lock resolves sandbox.packages, sandbox.requirements or sandbox.wheels with pip, from
the package index configured for pip, and writes the lock file: one wheel per package,
with its hash. The file is in the configuration directory, or in the data directory if
there is none. Lock uses wheels only; nothing is built, installed or run.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.runPackagesLock(cmd.Context()) },
		},
		&cobra.Command{
			Use: "install", Short: "Download and install the wheels of the lock file",
			Long: `Install downloads exactly the wheels of the lock file, verifies their hashes, and
unpacks them into a cache directory, which sandboxes mount read-only. Daemons use
it from their next start.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.runPackagesInstall(cmd.Context()) },
		},
		&cobra.Command{
			Use: "list", Short: "List the packages of the lock file and whether they are installed",
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.runPackagesList(cmd.Context()) },
		},
	)
}

// withPackages calls f with the package configuration and the embedded Python.
func (a *app) withPackages(ctx context.Context, f func(packages.Config, *python.Installation) error) error {
	cfg, err := a.loadConfig(nil)
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		a.warn(w)
	}
	in, err := python.Install(ctx, python.Config{
		Dir: filepath.Join(cfg.CacheDir, "python"), Overlay: worker.Python(), Progress: a.installProgress(preparingPython),
	})
	if err != nil {
		return err
	}
	defer in.Close()
	cfg.Packages.Progress = a.installProgress("Installing the packages.")
	return f(cfg.Packages, in)
}

func (a *app) runPackagesLock(ctx context.Context) error {
	return a.withPackages(ctx, func(cfg packages.Config, in *python.Installation) error {
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
	return a.withPackages(ctx, func(cfg packages.Config, in *python.Installation) error {
		layer, lock, err := packages.Install(ctx, cfg, in)
		if err != nil {
			return err
		}
		defer layer.Close()
		if reason := lock.StaleReason(cfg); reason != "" {
			a.warn(reason + "; run `sandpiper packages lock` again")
		}
		_, missing, err := layer.SystemLibraries(in)
		if err != nil {
			return err
		}
		for _, name := range missing {
			a.warn("this host does not have " + name + ", which some packages need: their modules cannot be imported")
		}
		if a.json {
			return a.writeJSON(map[string]any{"dir": layer.Dir(), "packages": lock.Packages, "missing": append([]string{}, missing...)})
		}
		a.printf("%s, %s in %s\n", installedText(len(lock.Packages)), dirSize(layer.Dir()), visibleName(layer.Dir()))
		return nil
	})
}

func (a *app) runPackagesList(ctx context.Context) error {
	cfg, err := a.loadConfig(nil)
	if err != nil {
		return err
	}
	s := newPackagesState(ctx, cfg.Packages)
	if a.json {
		return a.writeJSON(s)
	}
	if s.lock != nil {
		a.printPackages(s.lock)
	}
	a.printf("%s\n", visible(s.String()))
	return nil
}

// packagesState reports whether the configured packages are locked and installed.
type packagesState struct {
	Wanted    bool               `json:"wanted"`
	Installed bool               `json:"installed"`
	Packages  []packages.Package `json:"packages"`
	Problem   string             `json:"problem,omitempty"`
	Hint      string             `json:"hint,omitempty"`
	lock      *packages.Lock
}

func newPackagesState(ctx context.Context, cfg packages.Config) packagesState {
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
		s.Installed = true
		if err := layer.Close(); err != nil {
			s.Problem, s.Hint = "their lock cannot be released: "+err.Error(), ""
		}
	}
	if s.Problem == "" {
		s.Hint = ""
	}
	return s
}

func (s packagesState) String() string {
	text := installedText(len(s.Packages))
	switch {
	case !s.Wanted:
		return "no packages are configured: code has the standard library only"
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

func installedText(n int) string {
	if n == 1 {
		return "1 package is installed"
	}
	return fmt.Sprintf("%d packages are installed", n)
}

// dirSize returns the size of a directory as text, in MB of 2^20 bytes, rounded up.
func dirSize(dir string) string {
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
