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

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// tree is what was copied of a directory.
type tree struct {
	files, bytes int
}

// putTree copies the regular files of a directory into the workspace, beneath
// name. A link is followed where it stays in the directory. What lies where the
// workspace shows Sandpiper's own files is left out.
func (a *app) putTree(ctx context.Context, home *home.Home, dir, name string) (done tree, err error) {
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
		case to != "." && mounted(home, to):
			a.warn(fmt.Sprintf("%s is left out: /workspace/%s is Sandpiper's own", filepath.Join(dir, at), to))
			return skip(e)
		case e.IsDir() || !regularIn(root, at):
			return nil
		}
		n, err := putOne(ctx, home, root, at, to)
		if err != nil {
			return err
		}
		done.files, done.bytes = done.files+1, done.bytes+n
		return nil
	})
	return done, err
}

// mounted reports whether code finds something of Sandpiper's own under a name.
func mounted(home *home.Home, name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return slices.ContainsFunc(home.Mounts(), func(m sandbox.Mount) bool { return m.Target == "/workspace/"+first })
}

func skip(e fs.DirEntry) error {
	if e.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func regularIn(root *os.Root, at string) bool {
	info, err := root.Stat(at)
	return err == nil && info.Mode().IsRegular()
}

func putOne(ctx context.Context, home *home.Home, root *os.Root, at, to string) (int, error) {
	f, err := root.Open(at)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPut+1))
	if err == nil && len(data) > maxPut {
		err = fmt.Errorf("%s is larger than %d MB, the most that is copied at once", at, maxPut>>20)
	}
	if err != nil {
		return 0, err
	}
	return len(data), home.Workspace.Write(ctx, to, data)
}
