package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

func (a *app) filesCommand() *cobra.Command {
	return a.ofTenant(group("files", "List, print and change the files in /workspace",
		filesListCommand(a),
		&cobra.Command{
			Use: "cat FILE", Short: "Print a file",
			Long:    "Cat prints the content of a file. On a terminal, control characters are escaped.",
			Example: "  sandpiper files cat report.csv\n  sandpiper files cat chart.png > chart.png",
			Args:    cobra.ExactArgs(1),
			RunE:    func(cmd *cobra.Command, args []string) error { return a.runFilesCat(cmd.Context(), args[0]) },
		},
		filesPutCommand(a),
		filesGetCommand(a),
		&cobra.Command{
			Use: "rm FILE...", Short: "Delete files", SuggestFor: []string{"delete", "remove"},
			Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return a.runFilesRemove(cmd.Context(), args) },
		},
	))
}

func filesListCommand(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "ls [PATH]", Aliases: []string{"list"}, Short: "List files, recursively",
		Long:    "Ls lists the files in the workspace or in PATH. Results that were too large for an answer, in " + home.ResultsDir + ", are listed only with --all or if PATH names them.",
		Example: "  sandpiper files ls\n  sandpiper files ls reports",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withHome(cmd.Context(), func(home *home.Home) error {
				return listFiles(cmd.Context(), a, home, append(args, ".")[0], all)
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also list "+home.ResultsDir)
	return cmd
}

func listFiles(ctx context.Context, a *app, home *home.Home, path string, all bool) error {
	if a.jsonLines {
		return streamFiles(ctx, a, home, path, all)
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
	if a.json {
		return a.writeJSON(map[string]any{
			"success": true, "path": path, "files": l.Files, "count": len(l.Files), "truncated": l.Truncated,
		})
	}
	if path == "." {
		a.printEmpty(len(l.Files), "the workspace is empty; copy a file into it with `sandpiper files put`")
	} else {
		a.printEmpty(len(l.Files), "%s is empty", path)
	}
	for _, name := range l.Files {
		a.printf("%s\n", visibleName(name))
	}
	if l.Truncated {
		a.warn("the list is incomplete: there are more files")
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
func streamFiles(ctx context.Context, a *app, h *home.Home, path string, all bool) error {
	print := func(name string) error { return a.writeJSON(map[string]string{"name": name}) }
	incomplete, err := h.Workspace.Each(ctx, path, print)
	if err == nil && all && path == "." {
		var more bool
		if more, err = h.Workspace.Each(ctx, home.ResultsDir, print); fault.KindOf(err) == fault.NotFound {
			err = nil
		}
		incomplete = incomplete || more
	}
	if err == nil && incomplete {
		a.warn("the list is incomplete: some directories cannot be read")
	}
	return err
}

func (a *app) runFilesCat(ctx context.Context, name string) error {
	return a.withHome(ctx, func(home *home.Home) error {
		if a.json {
			data, err := readAll(ctx, home, name)
			if err != nil {
				return err
			}
			return a.writeJSON(fileContent(name, data))
		}
		show := func(p []byte) error {
			if isTerminal(a.stdout) {
				p = []byte(visible(string(p)))
			}
			_, err := a.stdout.Write(p)
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
func (a *app) putFile(ctx context.Context, home *home.Home, path, name string) (int, error) {
	data, err := a.readLocal(path)
	if err != nil {
		return 0, err
	}
	return len(data), home.Workspace.Write(ctx, name, data)
}

func (a *app) readLocal(path string) ([]byte, error) {
	r := a.stdin
	if path != "-" {
		if isDir(path) {
			return nil, usagef("%s is a directory; use sandpiper files put for directories", path)
		}
		f, err := openInput(path)
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

func (a *app) runFilesRemove(ctx context.Context, names []string) error {
	return a.withHome(ctx, func(home *home.Home) error {
		for _, name := range names {
			if err := home.Workspace.Delete(ctx, name); err != nil {
				return err
			}
		}
		if a.json {
			return a.writeJSON(map[string]any{"success": true, "message": "Deleted " + count(len(names), "file")})
		}
		return nil
	})
}
