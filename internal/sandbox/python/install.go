//go:build linux && (amd64 || arm64)

package python

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Install returns the embedded CPython on disk. It verifies an existing install,
// creates a missing one, and replaces a modified one. Of several concurrent calls for
// the same directory, one installs and the others wait.
//
// The fault is Exhausted if the disk is full, and Unavailable if the directory
// cannot be used or CPython does not start on this host.
func Install(ctx context.Context, cfg Config) (*Installation, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	key, err := contentKey(cfg.Overlay)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the embedded Python cannot be read from this program")
	}
	dir, err := cacheDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	c := &cache{dir: dir, key: key, name: Version + "-" + key, cfg: cfg, fill: distribute}
	defer func() { c.cfg.Overlay = nil }() // the Installation keeps c
	i, err := c.verified(ctx)
	if i != nil || err != nil {
		return i, explain(dir, err)
	}
	i, err = c.install(ctx)
	return i, explain(dir, err)
}

// cache is the directory of installs with the name of the wanted one.
type cache struct {
	dir, key, name string
	cfg            Config
	fill           func(context.Context, Config, *tree) error // writes the install
	keep           bool                                       // do not remove installs with other names
}

const (
	rootName     = "root"
	manifestName = "manifest.json"
	stampName    = "stamp"
)

func (c *cache) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir, c.name}, elem...)...)
}

// verified returns the install if it exists and is undamaged, or nil.
func (c *cache) verified(ctx context.Context) (*Installation, error) {
	if _, err := os.Lstat(c.path()); err != nil {
		return nil, unverified(err)
	}
	release, err := c.use(ctx)
	if err != nil {
		return nil, err
	}
	if found, err := c.inspect(); err != nil || !found.valid() {
		return nil, errors.Join(err, release())
	}
	return c.installation(nil, release), nil
}

// install creates or replaces the install, unless another process did so while this
// one waited for the lock.
func (c *cache) install(ctx context.Context) (*Installation, error) {
	finish, err := lock(ctx, filepath.Join(c.dir, "lock"), (*flock.Flock).TryLockContext)
	if err != nil {
		return nil, err
	}
	defer finish()
	found, err := c.inspect()
	if err != nil {
		return nil, err
	}
	if !found.valid() {
		c.removeUnused()
		if err := c.replace(ctx); err != nil {
			return nil, err
		}
		c.removeUnused()
	}
	if len(found.damage) > 0 {
		c.cfg.Log.Warn("the installed files were modified and have been replaced", "dir", c.path(), "files", len(found.damage), "first",
			found.damage[0])
	}
	release, err := c.use(ctx)
	if err != nil {
		return nil, err
	}
	return c.installation(found.damage, release), nil
}

func (c *cache) installation(repaired []string, release func() error) *Installation {
	return &Installation{dir: c.path(rootName), repaired: repaired, release: sync.OnceValue(release), intact: c.watch()}
}

// watch returns a function that reports whether the path still contains this install.
func (c *cache) watch() func(thorough bool) bool {
	was, err := os.Lstat(c.path(rootName))
	return func(thorough bool) bool {
		now, gone := os.Lstat(c.path(rootName))
		if unverified(errors.Join(err, gone)) != nil {
			return true
		}
		return err == nil && gone == nil && os.SameFile(was, now) && (!thorough || !c.damaged())
	}
}

// damaged reports whether files of the install were modified, as far as they can be checked.
func (c *cache) damaged() bool {
	found, err := c.inspect()
	return err == nil && !found.valid()
}

// use acquires the shared lock of the install. The lock file is outside of the install
// and is never removed, so that all processes lock the same file.
func (c *cache) use(ctx context.Context) (release func() error, err error) {
	release, err = lock(ctx, c.path()+".lock", (*flock.Flock).TryRLockContext)
	if readOnly(err) {
		return func() error { return nil }, nil // a read-only install cannot be removed
	}
	return release, err
}

func lock(ctx context.Context, path string, try func(*flock.Flock, context.Context, time.Duration) (bool, error)) (unlock func() error,
	err error) {
	l := flock.New(path)
	if _, err := try(l, ctx, 20*time.Millisecond); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l.Close, nil
}

// finding is the result of inspect.
type finding struct {
	exists bool
	damage []string // modified, missing and added files
}

func (f finding) valid() bool { return f.exists && len(f.damage) == 0 }

// inspect checks the install. If it had to hash the files, it renews the stamp. It fails if it
// could not look at the files, which may be undamaged.
func (c *cache) inspect() (finding, error) {
	switch err := checkOwner(c.path()); {
	case errors.Is(err, fs.ErrNotExist):
		return finding{}, nil
	case err != nil:
		return finding{exists: true, damage: []string{"."}}, unverified(err)
	}
	recorded, err := readStamp(c.path())
	if err != nil {
		return finding{exists: true, damage: []string{"../" + stampName}}, unverified(err)
	}
	now, err := stampOf(c.path())
	if unverified(err) != nil || err == nil && now == recorded.state {
		return finding{exists: true}, unverified(err)
	}
	damage, err := c.damage(recorded.manifest)
	if err == nil && len(damage) == 0 {
		c.restamp(recorded.manifest)
	}
	return finding{exists: true, damage: damage}, err
}

// unverified returns the error of a check that does not prove damage, or nil.
func unverified(err error) error {
	if !fault.Inconclusive(err) {
		return nil
	}
	return fault.Wrap(fault.Unavailable, err, "the installed Python cannot be checked").
		WithHint("check the disk of the cache directory")
}

// damage hashes the install. Its manifest must have the given hash.
func (c *cache) damage(manifestHash string) ([]string, error) {
	data, err := os.ReadFile(c.path(manifestName))
	if err != nil || hashOf(data) != manifestHash {
		return []string{"../" + manifestName}, unverified(err)
	}
	m, err := parseManifest(data, c.key)
	if err != nil {
		return []string{"../" + manifestName}, nil
	}
	names, err := m.differences(c.path(rootName))
	if err != nil { // such as an unreadable directory: its mode was modified
		return []string{"."}, unverified(err)
	}
	return names, nil
}

// restamp records that the install is valid. If this fails, the next start hashes the
// files again.
func (c *cache) restamp(manifestHash string) {
	state, err := stampOf(c.path())
	if err != nil {
		return
	}
	next := c.path(stampName + ".next")
	if writeStamp(next, stamp{state: state, manifest: manifestHash}) == nil {
		os.Rename(next, c.path(stampName))
	}
}
