package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

func filesGetCommand(env *cli.Env) *cobra.Command {
	var g getter
	cmd := &cobra.Command{
		Use: "get NAME... [-]", Short: "Copy files and directories out of the workspace",
		Long: "Get copies files of the workspace into the current directory, under their names; a directory is copied with all files " +
			"below it. With --as, one file is copied to another path, or into it if it is a directory. - as the last argument, or --as " +
			"-, prints the file. A file that exists is overwritten only with --force.",
		Example: "  sandpiper files get report.csv\n  sandpiper files get report.csv --as ~/reports/november.csv\n  sandpiper files get " +
			"report.csv - | head",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if last := len(args) - 1; last > 0 && args[last] == "-" {
				args, g.as = args[:last], "-"
			}
			if g.as == "-" && len(args) == 1 {
				return runFilesCat(cmd.Context(), env, args[0])
			}
			if g.as != "" && len(args) > 1 && !isDir(g.as) {
				return cli.Usagef("--as names a file, and %d are named", len(args))
			}
			return cli.WithHome(cmd.Context(), env, func(home *home.Home) error {
				g.home = home
				return getAll(cmd.Context(), env, &g, args)
			})
		},
	}
	cmd.Flags().StringVar(&g.as, "as", "", "copy to this `PATH`; - means standard output")
	cmd.Flags().BoolVar(&g.force, "force", false, "overwrite files that exist")
	return cmd
}

// getter copies files out of a workspace.
type getter struct {
	home  *home.Home
	as    string // destination; "" means the current directory
	force bool   // overwrite files
	done  treeSize
}

func getAll(ctx context.Context, env *cli.Env, g *getter, names []string) error {
	for _, name := range names {
		if err := g.get(ctx, name); err != nil {
			return err
		}
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true,
			"message": fmt.Sprintf("Written %s to %s", cli.Count(g.done.bytes, "byte"), cli.Count(g.done.files, "file"))})
	}
	return nil
}

// get copies a file, or all files in a directory.
func (g *getter) get(ctx context.Context, name string) error {
	to := g.as
	if to == "" || isDir(to) {
		to = filepath.Join(to, path.Base(name))
	}
	files, err := g.home.Workspace.List(ctx, name)
	if err != nil { // not a directory, or missing
		return g.copy(ctx, name, to)
	}
	if files.Truncated {
		return fault.New(fault.Exhausted, "%s has too many files to copy at once", name).WithHint("copy its directories one by one")
	}
	prefix := path.Clean(strings.TrimPrefix(strings.TrimPrefix(name, "/workspace"), "/")) + "/"
	for _, file := range files.Files {
		if err := g.copy(ctx, file, filepath.Join(to, filepath.FromSlash(strings.TrimPrefix(file, prefix)))); err != nil {
			return err
		}
	}
	return nil
}

// copy copies one file. A file that exists is left alone, and an incomplete copy is deleted.
func (g *getter) copy(ctx context.Context, name, to string) error {
	if _, err := g.home.Workspace.Read(ctx, name, 0, 1); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if g.force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(to, flags, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Invalid, "%s exists already", to).WithHint("--force overwrites it, and --as PATH writes to another file")
	}
	if err != nil {
		return err
	}
	err = readPages(ctx, g.home, name, func(p []byte) error {
		g.done.bytes += len(p)
		_, err := f.Write(p)
		return err
	})
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(to)
		return err
	}
	g.done.files++
	return nil
}
