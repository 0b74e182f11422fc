package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// preset is a list of packages with a name.
type preset struct{ packages, preload []string }

// presets are the lists of `packages add --preset`.
var presets = map[string]preset{
	"data": {
		packages: []string{"pandas", "numpy", "matplotlib", "pillow", "seaborn", "scikit-learn", "duckdb", "openpyxl"},
		preload:  []string{"pandas", "matplotlib.pyplot"},
	},
}

// preloadable are the packages that are worth importing before workers are forked.
var preloadable = map[string]string{"pandas": "pandas", "matplotlib": "matplotlib.pyplot", "numpy": "numpy"}

func packagesAddCommand(env *cli.Env) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use: "add PACKAGE...", Short: "Add packages to the configuration, lock and install them",
		Long: `Add adds packages to sandbox.packages, resolves them from the package index configured
for pip, writes the lock file and installs the wheels, for the layer default. If that
fails, the configuration is not changed. PACKAGE is a name, with or without a version:
pandas, "numpy==2.5.*".

--preset data adds pandas, numpy, matplotlib, pillow, seaborn, scikit-learn, duckdb
and openpyxl.`,
		Example: `  sandpiper packages add pandas matplotlib
  sandpiper packages add --preset data`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p := presets[name]
			return runPackagesAdd(cmd.Context(), env, preset{slices.Concat(args, p.packages), p.preload})
		},
	}
	cli.EnumFlag(c.Flags(), &name, "preset", "", "add a list of packages: data", slices.Sorted(maps.Keys(presets))...)
	return c
}

// requirement matches a name of a package, its extras and versions.
var requirement = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)(\[[A-Za-z0-9._,-]+\])? *([=<>!~]=?[^;@#]*)?$`)

func runPackagesAdd(ctx context.Context, env *cli.Env, more preset) error {
	if len(more.packages) == 0 {
		return cli.Usagef("no package is named; name one, such as pandas, or use --preset data")
	}
	for _, name := range more.packages {
		if !requirement.MatchString(name) {
			return cli.Usagef("%.60q is not a package; use a name such as pandas, or a name and a version such as \"numpy==2.5.*\"", name)
		}
	}
	path, old, err := serversFile(env)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil { // pip runs there
		return fault.Wrap(fault.Unavailable, err, "%s cannot be created", filepath.Dir(path))
	}
	var installed string
	var text []byte
	err = withPackages(ctx, env, []string{config.DefaultPackageLayer}, func(l layer, in *python.Installation) error {
		cfg := l.Config
		cfg.Requirements = mergedPackages(cfg.Requirements, more.packages)
		cfg.LockFile = filepath.Join(filepath.Dir(path), packages.LockName)
		if text, err = config.SetPackages(path, old, cfg.Requirements, preloadOf(env, more)); err != nil {
			return err
		}
		if len(old) == 0 {
			text = append([]byte(config.SchemaLine), text...)
		}
		installed, err = addPackages(ctx, env, cfg, in)
		return err
	})
	if err != nil {
		return err
	}
	if err := cli.ReplaceConfig(env, path, old, text); err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "file": path, "dir": installed})
	}
	env.PrintDone("%s in %s", "added "+strings.Join(more.packages, ", "), path)
	env.Printf("A running daemon uses them after a restart.\n")
	if slices.Contains(more.packages, "polars") {
		if cfg, err := cli.LoadConfig(env, nil); err == nil && !cfg.Epoll {
			env.Printf("Polars needs sandbox: {epoll: true} in the configuration, with a risk that docs/packages.md describes.\n")
		}
	}
	return nil
}

// addPackages locks and installs the packages of cfg, and returns their directory.
func addPackages(ctx context.Context, env *cli.Env, cfg packages.Config, in *python.Installation) (dir string, err error) {
	done := env.Working("resolving the packages")
	lock, err := packages.Resolve(ctx, cfg, in)
	done()
	if err != nil {
		return "", err
	}
	installed, _, err := packages.Install(ctx, cfg, in)
	if err != nil {
		return "", err
	}
	defer installed.Close()
	if !env.JSON {
		printPackages(env, lock)
		env.Printf("%s, %s in %s\n", installedText(len(lock.Packages), layer{}), dirSize(installed.Dir()), cli.VisibleName(installed.Dir()))
	}
	return installed.Dir(), nil
}

// preloadOf returns the modules to preload, besides those of the configuration.
func preloadOf(env *cli.Env, more preset) []string {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return nil
	}
	all := slices.Clone(cfg.Preload)
	for _, p := range more.packages {
		if module := preloadable[strings.ToLower(p)]; module != "" && !slices.Contains(all, module) {
			all = append(all, module)
		}
	}
	return all
}

// mergedPackages returns had with more, which replace requirements of the same packages.
func mergedPackages(had, more []string) []string {
	name := func(r string) string {
		return strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(requirement.FindStringSubmatch(r)[1]))
	}
	all := slices.Clone(had)
	for _, r := range more {
		i := slices.IndexFunc(all, func(old string) bool { return requirement.MatchString(old) && name(old) == name(r) })
		if i < 0 {
			all = append(all, r)
		} else {
			all[i] = r
		}
	}
	return all
}
