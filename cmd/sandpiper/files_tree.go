package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// treeSize is the size of a copied directory.
type treeSize struct {
	files, bytes int
}

// putTree copies the regular files of a directory into the workspace, below name. It
// follows links within the directory. Files below a mount point of Sandpiper are skipped.
func putTree(ctx context.Context, env *cli.Env, home *home.Home, dir, name string) (done treeSize, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return done, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(at string, e fs.DirEntry, err error) error {
		to := path.Join(name, at)
		switch {
		case err != nil:
			return err
		case to != "." && isMountPoint(home, to):
			env.Warn(fmt.Sprintf("%s is not copied: /workspace/%s is reserved for Sandpiper", filepath.Join(dir, at), to))
			return skipEntry(e)
		case e.IsDir() || !isRegularIn(root, at):
			return nil
		}
		n, err := putTreeFile(ctx, home, root, at, to)
		if err != nil {
			return err
		}
		done.files, done.bytes = done.files+1, done.bytes+n
		return nil
	})
	return done, err
}

// isMountPoint reports whether Sandpiper mounts a directory at a name.
func isMountPoint(home *home.Home, name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return slices.ContainsFunc(home.Mounts(), func(m sandbox.Mount) bool { return m.Target == "/workspace/"+first })
}

func skipEntry(e fs.DirEntry) error {
	if e.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func isRegularIn(root *os.Root, at string) bool {
	info, err := root.Stat(at)
	return err == nil && info.Mode().IsRegular()
}

func putTreeFile(ctx context.Context, home *home.Home, root *os.Root, at, to string) (int, error) {
	f, err := root.Open(at)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = fmt.Errorf("%s is larger than %d MB, the limit of a file", at, maxFileSize>>20)
	}
	if err != nil {
		return 0, err
	}
	return len(data), home.Workspace.Write(ctx, to, data)
}

// maxFileSize is the maximum size of a file copied into the workspace. The file is read
// into memory.
const maxFileSize = 1 << 30
