//go:build linux && (amd64 || arm64)

package python

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// tree is an install that is being written. Each file is hashed while it is written,
// so the manifest describes the intended content, not what the disk returns later.
type tree struct {
	root     string
	program  string // the interpreter that compiles
	inside   string // mount point of root in sandboxes
	lenient  bool   // ignore sources that do not compile
	progress func(stage string, done, total int)

	mu    sync.Mutex
	files []entry
	needs []string       // required host libraries of a layer
	done  map[string]int // finished files by stage
}

func newTree(root string, progress func(string, int, int)) (*tree, error) {
	if progress == nil {
		progress = func(string, int, int) {}
	}
	t := &tree{
		root:     root,
		program:  filepath.Join(root, executable),
		inside:   inside,
		progress: progress,
		done:     map[string]int{},
		files:    []entry{{Path: ".", Mode: fs.ModeDir | 0o755}},
	}
	return t, errors.Join(os.Mkdir(root, 0o755), os.Chmod(root, 0o755))
}

func (t *tree) path(name string) string { return filepath.Join(t.root, filepath.FromSlash(name)) }

// count reports one more finished file of a stage.
func (t *tree) count(stage string, total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done[stage]++
	t.progress(stage, t.done[stage], total)
}

func (t *tree) add(e entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files = append(t.files, e)
}

// dir creates one directory unless it exists. Its parent must exist.
func (t *tree) dir(name string) error {
	err := os.Mkdir(t.path(name), 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = os.Chmod(t.path(name), 0o755) // regardless of the umask
	}
	t.add(entry{Path: name, Mode: fs.ModeDir | 0o755})
	return err
}

func (t *tree) link(name, target string) error {
	t.add(entry{Path: name, Mode: fs.ModeSymlink, Link: target})
	return os.Symlink(target, t.path(name))
}

// file writes one read-only file: an install never changes.
func (t *tree) file(name string, executable bool, content io.Reader) error {
	mode := fs.FileMode(0o444)
	if executable {
		mode = 0o555
	}
	f, err := os.OpenFile(t.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), content)
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	t.add(entry{Path: name, Mode: mode, Size: n, SHA256: hex.EncodeToString(h.Sum(nil))})
	return nil
}

// extract writes the distribution, several files concurrently.
func (t *tree) extract(ctx context.Context, list []packed) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range list {
		if gctx.Err() != nil {
			break
		}
		if p.Mode.IsDir() {
			if err := t.dir(p.Name); err != nil {
				return errors.Join(err, g.Wait())
			}
			t.count("extract", len(list))
			continue
		}
		g.Go(func() error {
			defer t.count("extract", len(list))
			return t.unpack(embedded, p)
		})
	}
	return errors.Join(g.Wait(), context.Cause(ctx))
}

func (t *tree) unpack(from fs.FS, p packed) error {
	if p.Mode.Type() == fs.ModeSymlink {
		return t.link(p.Name, p.Symlink)
	}
	content, err := p.open(from)
	if err != nil {
		return err
	}
	defer content.Close()
	return t.file(p.Name, p.Mode&0o100 != 0 && path.Dir(p.Name) == "bin", content)
}

// overlay writes Sandpiper's files to sandpiper/.
func (t *tree) overlay(files fs.FS) error {
	if files == nil {
		return nil
	}
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		to := path.Join("sandpiper", name)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return t.dir(to)
		}
		data, err := fs.ReadFile(files, name)
		switch {
		case err != nil:
			return err
		case path.Ext(name) == ".whl":
			return t.wheel(to, data)
		}
		return t.file(to, false, bytes.NewReader(data))
	})
}

// wheel writes the Python of a wheel to its directory, as a package that is imported by that path, also by itself.
func (t *tree) wheel(name string, data []byte) error {
	dir := path.Dir(name)
	files, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		root, _, _ := strings.Cut(name, "/")
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasSuffix(name, ".dist-info"):
			return fs.SkipDir
		case d.IsDir():
			return t.dir(path.Join(dir, name))
		case path.Ext(name) != ".py":
			return nil
		}
		source, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		own := strings.ReplaceAll(path.Join(dir, root), "/", ".")
		source = bytes.ReplaceAll(source, []byte("from "+root), []byte("from "+own))
		return t.file(path.Join(dir, name), false, bytes.NewReader(source))
	})
}

// sources returns the Python files of t in a fixed order.
func (t *tree) sources() []string {
	var names []string
	for _, e := range sorted(t.files) {
		if e.Mode.IsRegular() && strings.HasSuffix(e.Path, ".py") {
			names = append(names, e.Path)
		}
	}
	return names
}
