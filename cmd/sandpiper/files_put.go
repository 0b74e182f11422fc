package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

func filesPutCommand(env *cli.Env) *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use: "put PATH...", Short: "Copy files and directories into the workspace",
		Long: "Put copies each PATH, or standard input for -, into the workspace. A file or directory keeps its name; --as stores one " +
			"under another name. A directory is copied with all files below it; the name . means the workspace itself.",
		Example: "  sandpiper files put ~/data/sales.csv ~/data/orders.csv\n  sandpiper files put sales.csv --as 2026/sales.csv\n  " +
			"sandpiper files put ~/data --as .\n  curl -s https://example.com/data.json | sandpiper files put - --as data.json",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			copies, err := planCopies(args, as)
			if err != nil {
				return err
			}
			return cli.WithHome(cmd.Context(), env, func(home *home.Home) error { return putAll(cmd.Context(), env, home, copies) })
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "store one file or directory under this `NAME`")
	return cmd
}

// fileCopy is a local file or directory, and its name in the workspace.
type fileCopy struct{ path, name string }

// planCopies returns the names of the copies, and an error if any cannot be made, so that nothing
// is copied in that case.
func planCopies(paths []string, as string) ([]fileCopy, error) {
	if as != "" && len(paths) > 1 {
		return nil, cli.Usagef("--as renames one file or directory, and %d are named", len(paths))
	}
	var copies []fileCopy
	from := make(map[string]string)
	for _, path := range paths {
		c := fileCopy{path, as}
		if as == "" {
			c.name = filepath.Base(path)
		}
		switch other, twice := from[c.name]; {
		case path == "-" && as == "":
			return nil, cli.Usagef("standard input needs a name: sandpiper files put - --as NAME")
		case twice:
			return nil, cli.Usagef("%s and %s have the same name in the workspace, %s", other, path, c.name)
		case c.name == "." && len(paths) > 1:
			return nil, fault.New(fault.Invalid, "the directory . is copied with all files below it only if it is named alone").
				WithHint("to copy %[1]s to the top of the workspace: sandpiper files put %[1]s --as .", paths[0])
		}
		from[c.name] = path
		if _, err := os.Stat(path); path != "-" && err != nil {
			return nil, explainMissing(err, paths)
		}
		copies = append(copies, c)
	}
	return copies, nil
}

// explainMissing adds how to rename to the error of a missing second file, which may be meant as
// a name.
func explainMissing(err error, paths []string) error {
	missing, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	missing.Op = "open"
	if len(paths) != 2 || missing.Path != paths[1] {
		return err
	}
	return fault.Wrap(fault.NotFound, err, "%v", err).
		WithHint("files keep their names; to store %[1]s under the name %[2]s: sandpiper files put %[1]s --as %[2]s", paths[0], paths[1])
}

func putAll(ctx context.Context, env *cli.Env, home *home.Home, copies []fileCopy) error {
	var done treeSize
	trees := false
	for _, c := range copies {
		more, err := putOne(ctx, env, home, c)
		if err != nil {
			return err
		}
		trees = trees || isDir(c.path)
		done.files, done.bytes = done.files+more.files, done.bytes+more.bytes
	}
	if !env.JSON {
		return nil
	}
	message := fmt.Sprintf("Written %s to %s", cli.Count(done.bytes, "byte"), copies[0].name)
	switch {
	case len(copies) > 1:
		message = fmt.Sprintf("Written %s to %s", cli.Count(done.bytes, "byte"), cli.Count(done.files, "file"))
	case trees:
		message = fmt.Sprintf("Written %s to %s in %s", cli.Count(done.bytes, "byte"), cli.Count(done.files, "file"), copies[0].name)
	}
	return env.WriteJSON(map[string]any{"success": true, "message": message})
}

func putOne(ctx context.Context, env *cli.Env, home *home.Home, c fileCopy) (treeSize, error) {
	if isDir(c.path) {
		defer env.Working("copying " + c.path)()
		return putTree(ctx, env, home, c.path, c.name)
	}
	n, err := putFile(ctx, env, home, c.path, c.name)
	return treeSize{1, n}, err
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return path != "-" && err == nil && info.IsDir()
}
