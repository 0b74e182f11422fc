package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

func packagesCommand(env *cli.Env) *cobra.Command {
	return cli.Group("packages", "Add, lock, install and list Python packages for sandboxes",
		packagesAddCommand(env),
		&cobra.Command{
			Use: "lock [LAYER]", Short: "Resolve the configured packages and write the lock file",
			Long: `Lock resolves sandbox.packages, sandbox.requirements or sandbox.wheels with pip, from
the package index configured for pip, and writes the lock file: one wheel per package,
with its hash. The file is in the configuration directory, or in the data directory if
there is none. Lock uses wheels only; nothing is built, installed or run.

Each layer of sandbox.package_layers has a lock file of its own. LAYER names one layer,
"default" is the one of sandbox.packages; without it, all are locked.`,
			Args: cobra.MaximumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runPackagesLock(cmd.Context(), env, args) },
		},
		&cobra.Command{
			Use: "install [LAYER]", Short: "Download and install the wheels of the lock file",
			Long: `Install downloads exactly the wheels of the lock file, verifies their hashes, and
unpacks them into a cache directory, which sandboxes mount read-only. Daemons use
it from their next start.`,
			Args: cobra.MaximumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runPackagesInstall(cmd.Context(), env, args) },
		},
		&cobra.Command{
			Use: "list [LAYER]", Short: "List the packages of the lock file and whether they are installed",
			Args: cobra.MaximumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runPackagesList(cmd.Context(), env, args) },
		},
	)
}

// layer is a package layer as commands name it.
type layer struct {
	name string // "" for the default of a configuration without other layers
	packages.Config
}

// suffix returns the name of the layer for messages.
func (l layer) suffix() string {
	if l.name == "" {
		return ""
	}
	return " of the layer " + l.name
}

// layersOf returns the layer that args names, or all layers with packages.
func layersOf(cfg *config.Config, args []string) ([]layer, error) {
	names := cfg.PackageLayerNames()
	if len(names) == 0 {
		names = []string{config.DefaultPackageLayer}
	}
	if len(args) > 0 {
		if !slices.Contains(names, args[0]) {
			return nil, fault.New(fault.NotFound, "there is no package layer %.40q with packages", args[0]).
				WithHint("configured are: %s", strings.Join(names, ", "))
		}
		names = args
	}
	var all []layer
	for _, name := range names {
		l := layer{name, cfg.Layer(name).Config}
		if len(cfg.PackageLayers) == 0 {
			l.name = ""
		}
		all = append(all, l)
	}
	return all, nil
}

// withPackages calls f with each layer of args and the embedded Python.
func withPackages(ctx context.Context, env *cli.Env, args []string, f func(layer, *python.Installation) error) error {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	layers, err := layersOf(cfg, args)
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		env.Warn(w)
	}
	in, err := python.Install(ctx, python.Config{
		Dir: filepath.Join(cfg.CacheDir, "python"), Overlay: worker.Python(daemon.Modules(env.Features)...),
		Progress: cli.InstallProgress(env, cli.PreparingPython),
	})
	if err != nil {
		return err
	}
	defer in.Close()
	for _, l := range layers {
		l.Progress = cli.InstallProgress(env, "Installing the packages"+l.suffix()+".")
		if err := f(l, in); err != nil {
			return err
		}
	}
	return nil
}

func runPackagesLock(ctx context.Context, env *cli.Env, args []string) error {
	return withPackages(ctx, env, args, func(l layer, in *python.Installation) error {
		done := env.Working("resolving the packages")
		lock, err := packages.Resolve(ctx, l.Config, in)
		done()
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(struct {
				Layer    string             `json:"layer,omitempty"`
				Lock     string             `json:"lock"`
				Packages []packages.Package `json:"packages"`
			}{l.name, l.LockFile, lock.Packages})
		}
		printPackages(env, lock)
		env.Printf("written to %s; %s\n", cli.VisibleName(l.LockFile), cli.Completed(env, "`sandpiper packages install` installs them"))
		return nil
	})
}

func printPackages(env *cli.Env, lock *packages.Lock) {
	for _, p := range lock.Packages {
		env.Printf("%-24s %s\n", cli.VisibleName(p.Name), cli.VisibleName(p.Version))
	}
}

func runPackagesInstall(ctx context.Context, env *cli.Env, args []string) error {
	return withPackages(ctx, env, args, func(l layer, in *python.Installation) error {
		installed, lock, err := packages.Install(ctx, l.Config, in)
		if err != nil {
			return err
		}
		defer installed.Close()
		if reason := lock.StaleReason(l.Config); reason != "" {
			env.Warn(reason + "; run `sandpiper packages lock` again")
		}
		_, missing, err := installed.SystemLibraries(in)
		if err != nil {
			return err
		}
		for _, name := range missing {
			env.Warn("this host does not have " + name + ", which some packages need: their modules cannot be imported")
		}
		if env.JSON {
			return env.WriteJSON(struct {
				Layer    string             `json:"layer,omitempty"`
				Dir      string             `json:"dir"`
				Missing  []string           `json:"missing"`
				Packages []packages.Package `json:"packages"`
			}{l.name, installed.Dir(), append([]string{}, missing...), lock.Packages})
		}
		env.Printf("%s, %s in %s\n", installedText(len(lock.Packages), l), dirSize(installed.Dir()), cli.VisibleName(installed.Dir()))
		return nil
	})
}

func runPackagesList(ctx context.Context, env *cli.Env, args []string) error {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	layers, err := layersOf(cfg, args)
	for _, l := range layers {
		s := newPackagesState(ctx, l)
		s.Hint = cli.Completed(env, s.Hint)
		if env.JSON {
			if err := env.WriteJSON(s); err != nil {
				return err
			}
			continue
		}
		if s.lock != nil {
			printPackages(env, s.lock)
		}
		env.Printf("%s\n", cli.Visible(s.String()))
	}
	return err
}

// packagesState reports whether the configured packages are locked and installed.
type packagesState struct {
	Layer     string             `json:"layer,omitempty"`
	Wanted    bool               `json:"wanted"`
	Installed bool               `json:"installed"`
	Packages  []packages.Package `json:"packages"`
	Problem   string             `json:"problem,omitempty"`
	Hint      string             `json:"hint,omitempty"`
	lock      *packages.Lock
}

func newPackagesState(ctx context.Context, l layer) packagesState {
	cfg := l.Config
	s := packagesState{Layer: l.name, Wanted: !cfg.IsEmpty(), Packages: []packages.Package{}}
	if !s.Wanted {
		return s
	}
	installed, lock, err := packages.Open(ctx, cfg)
	if lock != nil {
		s.lock, s.Packages = lock, lock.Packages
		s.Problem, s.Hint = lock.StaleReason(cfg), "run `sandpiper packages lock`, then `sandpiper packages install`"
	}
	if err != nil {
		s.Problem, s.Hint = fault.Message(err), fault.Hint(err)
	} else {
		s.Installed = true
		if err := installed.Close(); err != nil {
			s.Problem, s.Hint = "their lock cannot be released: "+err.Error(), ""
		}
	}
	if s.Problem == "" {
		s.Hint = ""
	}
	return s
}

func (s packagesState) String() string {
	text := installedText(len(s.Packages), layer{name: s.Layer})
	switch {
	case !s.Wanted:
		return "no packages are configured: code has the standard library only"
	case !s.Installed && s.Layer != "":
		text = s.Layer + ": " + s.Problem
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

func installedText(n int, l layer) string {
	if n == 1 {
		return "1 package" + l.suffix() + " is installed"
	}
	return fmt.Sprintf("%d packages%s are installed", n, l.suffix())
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
