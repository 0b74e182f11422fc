//go:build linux && (amd64 || arm64)

package python

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

const (
	stagingPrefix = ".staging-" // being written by the holder of the lock
	retiredPrefix = ".retired-" // replaced, but perhaps still mounted in a sandbox
)

// replace writes the install to a staging directory and renames it into place. If it
// fails, the previous state is unchanged and no other files remain.
func (c *cache) replace(ctx context.Context) (err error) {
	staging, err := os.MkdirTemp(c.dir, stagingPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	if err := c.write(ctx, staging); err != nil {
		return err
	}
	if err := syncDir(staging, unix.Syncfs); err != nil {
		return err
	}
	if err := c.rename(staging); err != nil {
		return fmt.Errorf("renaming the install into place: %w", err)
	}
	return syncDir(c.dir, unix.Fsync)
}

// write writes a complete install to dir.
func (c *cache) write(ctx context.Context, dir string) error {
	t, err := newTree(filepath.Join(dir, rootName), c.cfg.Progress)
	if err != nil {
		return err
	}
	if err := c.fill(ctx, c.cfg, t); err != nil {
		return err
	}
	return c.writeMetadata(dir, t)
}

// distribute writes CPython and the overlay into t.
func distribute(ctx context.Context, cfg Config, t *tree) error {
	list, err := distribution()
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return t.extract(ctx, list) },
		func() error { return t.overlay(cfg.Overlay) },
		func() error { _, err := systemLibraries("/", t.root); return err },
		func() error { return t.tryStart(ctx) },
		func() error { return t.compile(ctx) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// writeMetadata adds manifest and stamp to the install in dir and makes it readable by all users: its
// parent directory controls access.
func (c *cache) writeMetadata(dir string, t *tree) error {
	data, err := json.Marshal(manifest{Key: c.key, Version: Version, Files: sorted(t.files), Needs: t.needs})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), data, 0o444); err != nil {
		return err
	}
	state, err := stampOf(dir)
	if err != nil {
		return err
	}
	if err := writeStamp(filepath.Join(dir, stampName), stamp{state: state, manifest: hashOf(data)}); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// rename moves staging to the path of the install atomically. An existing install is
// retired, since it may be mounted in a running sandbox.
func (c *cache) rename(staging string) error {
	err := os.Rename(staging, c.path())
	if !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	retired := filepath.Join(c.dir, retiredPrefix+c.name+"_"+strings.TrimPrefix(filepath.Base(staging), stagingPrefix))
	err = unix.Renameat2(unix.AT_FDCWD, staging, unix.AT_FDCWD, c.path(), unix.RENAME_EXCHANGE)
	if err == nil {
		return os.Rename(staging, retired)
	}
	// Some file systems do not support RENAME_EXCHANGE: the path is missing for a moment.
	if err := os.Rename(c.path(), retired); err != nil {
		return err
	}
	return os.Rename(staging, c.path())
}

// syncDir syncs dir to disk. Syncfs syncs the whole file system of dir, which is much
// faster than one fsync for each of 1,200 files.
func syncDir(dir string, sync func(fd int) error) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := sync(int(f.Fd())); err != nil {
		return fmt.Errorf("writing %s to disk: %w", dir, err)
	}
	return nil
}

var installName = regexp.MustCompile(`^\d+\.\d+\.\d+-[0-9a-f]{16}$`)

// removeUnused removes unused directories: staging directories of dead processes,
// retired trees, and all but the newest install of other versions. The caller holds
// the lock of the cache directory. A failed removal is retried at the next call.
func (c *cache) removeUnused() {
	list, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	var others []fs.DirEntry
	for _, e := range list {
		switch name := e.Name(); {
		case strings.HasPrefix(name, stagingPrefix):
			os.RemoveAll(filepath.Join(c.dir, name))
		case strings.HasPrefix(name, retiredPrefix):
			install, _, _ := strings.Cut(name[len(retiredPrefix):], "_")
			c.remove(name, install)
		case e.IsDir() && !c.keep && name != c.name && installName.MatchString(name):
			others = append(others, e)
		}
	}
	slices.SortFunc(others, func(a, b fs.DirEntry) int { return modTime(b).Compare(modTime(a)) })
	for _, e := range others[min(1, len(others)):] {
		c.remove(e.Name(), e.Name())
	}
}

// remove deletes a directory unless the install with the given name is in use.
func (c *cache) remove(dir, name string) {
	l := flock.New(filepath.Join(c.dir, name+".lock"))
	defer l.Close()
	if free, err := l.TryLock(); err != nil || !free {
		return
	}
	gone := filepath.Join(c.dir, stagingPrefix+"removed-"+dir)
	if os.Rename(filepath.Join(c.dir, dir), gone) == nil {
		os.RemoveAll(gone)
	}
}

func modTime(e fs.DirEntry) time.Time {
	info, err := e.Info()
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
