package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

func filesCommand(env *cli.Env) *cobra.Command {
	return cli.OfTenant(env, cli.Group("files", "List, print and change the files in /workspace",
		filesListCommand(env),
		&cobra.Command{
			Use: "cat FILE", Short: "Print a file",
			Long:    "Cat prints the content of a file. On a terminal, control characters are escaped.",
			Example: "  sandpiper files cat report.csv\n  sandpiper files cat chart.png > chart.png",
			Args:    cobra.ExactArgs(1),
			RunE:    func(cmd *cobra.Command, args []string) error { return runFilesCat(cmd.Context(), env, args[0]) },
		},
		filesPutCommand(env),
		filesGetCommand(env),
		&cobra.Command{
			Use: "rm FILE...", Short: "Delete files", SuggestFor: []string{"delete", "remove"},
			Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runFilesRemove(cmd.Context(), env, args) },
		},
	))
}

func filesListCommand(env *cli.Env) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "ls [PATH]", Aliases: []string{"list"}, Short: "List files, recursively",
		Long: "Ls lists the files in the workspace or in PATH. Results that were too large for an answer, in " + home.ResultsDir +
			", are listed only with --all or if PATH names them.",
		Example: "  sandpiper files ls\n  sandpiper files ls reports",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.WithHome(cmd.Context(), env, func(home *home.Home) error {
				return listFiles(cmd.Context(), env, home, append(args, ".")[0], all)
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also list "+home.ResultsDir)
	return cmd
}

func listFiles(ctx context.Context, env *cli.Env, home *home.Home, path string, all bool) error {
	if env.JSONLines {
		return streamFiles(ctx, env, home, path, all)
	}
	l, err := home.Workspace.List(ctx, path)
	if err != nil {
		return err
	}
	if all && path == "." {
		more, err := listResults(ctx, home)
		if err != nil {
			return err
		}
		l.Files, l.Truncated = append(more.Files, l.Files...), l.Truncated || more.Truncated
		slices.Sort(l.Files)
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{
			"success": true, "path": path, "files": l.Files, "count": len(l.Files), "truncated": l.Truncated,
		})
	}
	if path == "." {
		env.PrintEmpty(len(l.Files), "the workspace is empty; copy a file into it with `sandpiper files put`")
	} else {
		env.PrintEmpty(len(l.Files), "%s is empty", path)
	}
	for _, name := range l.Files {
		env.Printf("%s\n", cli.VisibleName(name))
	}
	if l.Truncated {
		env.Warn("the list is incomplete: there are more files")
	}
	return nil
}

// listResults lists the directory of large results, which a list of the workspace omits.
func listResults(ctx context.Context, h *home.Home) (workspace.Listing, error) {
	l, err := h.Workspace.List(ctx, home.ResultsDir)
	if fault.KindOf(err) == fault.NotFound {
		return workspace.Listing{}, nil
	}
	return l, err
}

// streamFiles prints the files in path as they are found, without the limit of a list.
func streamFiles(ctx context.Context, env *cli.Env, h *home.Home, path string, all bool) error {
	print := func(name string) error { return env.WriteJSON(map[string]string{"name": name}) }
	incomplete, err := h.Workspace.Each(ctx, path, print)
	if err == nil && all && path == "." {
		var more bool
		if more, err = h.Workspace.Each(ctx, home.ResultsDir, print); fault.KindOf(err) == fault.NotFound {
			err = nil
		}
		incomplete = incomplete || more
	}
	if err == nil && incomplete {
		env.Warn("the list is incomplete: some directories cannot be read")
	}
	return err
}

func runFilesCat(ctx context.Context, env *cli.Env, name string) error {
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		if env.JSON {
			data, err := readAll(ctx, home, name)
			if err != nil {
				return err
			}
			return env.WriteJSON(fileContent(name, data))
		}
		show := func(p []byte) error {
			if cli.IsTerminal(env.Stdout) {
				p = []byte(cli.Visible(string(p)))
			}
			_, err := env.Stdout.Write(p)
			return err
		}
		return readPages(ctx, home, name, show)
	})
}

// readPages reads a file in pages.
func readPages(ctx context.Context, home *home.Home, name string, each func([]byte) error) error {
	for offset := int64(0); ; {
		p, err := home.Workspace.Read(ctx, name, offset, workspace.MaxPage)
		if err != nil {
			return err
		}
		if err := each(p.Content); err != nil {
			return err
		}
		if offset = p.Next; offset == 0 {
			return nil
		}
	}
}

func readAll(ctx context.Context, home *home.Home, name string) ([]byte, error) {
	var all []byte
	err := readPages(ctx, home, name, func(p []byte) error {
		all = append(all, p...)
		return nil
	})
	return all, err
}

// fileContent returns a file in JSON, with the keys of the tool read_file.
func fileContent(name string, data []byte) any {
	m := map[string]any{"success": true, "filename": name, "size": len(data), "content": string(data)}
	if !utf8.Valid(data) {
		m["content"], m["encoding"] = base64.StdEncoding.EncodeToString(data), "base64"
	}
	return m
}

// putFile copies a local file, or standard input, into the workspace.
func putFile(ctx context.Context, env *cli.Env, home *home.Home, path, name string) (int, error) {
	data, err := readLocal(env, path)
	if err != nil {
		return 0, err
	}
	return len(data), home.Workspace.Write(ctx, name, data)
}

func readLocal(env *cli.Env, path string) ([]byte, error) {
	r := env.Stdin
	if path != "-" {
		if isDir(path) {
			return nil, cli.Usagef("%s is a directory; use sandpiper files put for directories", path)
		}
		f, err := cli.OpenInput(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = fmt.Errorf("%s is larger than %d MB, the limit of a file", path, maxFileSize>>20)
	}
	return data, err
}

func runFilesRemove(ctx context.Context, env *cli.Env, names []string) error {
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		for _, name := range names {
			if err := home.Workspace.Delete(ctx, name); err != nil {
				return err
			}
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "message": "Deleted " + cli.Count(len(names), "file")})
		}
		return nil
	})
}
