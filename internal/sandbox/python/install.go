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

// Install returns the embedded CPython on disk. It verifies one that is there,
// makes one if there is none, and replaces one that is not as it was made. Many
// may call it for the same directory at once: one works, the others wait.
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
	i, err := c.verified(ctx)
	if i != nil || err != nil {
		return i, explain(dir, err)
	}
	i, err = c.changed(ctx)
	return i, explain(dir, err)
}

// cache is the directory of installs, and the one install in it that we want.
type cache struct {
	dir, key, name string
	cfg            Config
	fill           func(context.Context, Config, *tree) error // writes the install
	keep           bool                                       // installs of other names are left alone
}

const (
	rootName     = "root"
	manifestName = "manifest.json"
	stampName    = "stamp"
)

func (c *cache) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir, c.name}, elem...)...)
}

// verified returns the install if there is a sound one, or nil.
func (c *cache) verified(ctx context.Context) (*Installation, error) {
	if _, err := os.Lstat(c.path()); err != nil {
		return nil, nil
	}
	release, err := c.use(ctx)
	if err != nil {
		return nil, err
	}
	if !c.inspect().sound() {
		return nil, release()
	}
	return c.installation(nil, release), nil
}

// changed makes or replaces the install, unless another process did so while
// we waited for our turn.
func (c *cache) changed(ctx context.Context) (*Installation, error) {
	finish, err := lock(ctx, filepath.Join(c.dir, "lock"), (*flock.Flock).TryLockContext)
	if err != nil {
		return nil, err
	}
	defer finish()
	found := c.inspect()
	if !found.sound() {
		c.tidy()
		if err := c.replace(ctx); err != nil {
			return nil, err
		}
		c.tidy()
	}
	if len(found.damage) > 0 {
		c.cfg.Log.Warn("what is installed had been changed and was replaced", "dir", c.path(), "files", len(found.damage), "first", found.damage[0])
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

// watch returns a function that reports whether the install is still the one
// that is there now.
func (c *cache) watch() func(thorough bool) bool {
	was, err := os.Lstat(c.path(rootName))
	return func(thorough bool) bool {
		now, gone := os.Lstat(c.path(rootName))
		return err == nil && gone == nil && os.SameFile(was, now) && (!thorough || !c.damaged())
	}
}

// damaged reports whether files of the install are not as they were made. A process
// without descriptors cannot tell, and finds no damage.
func (c *cache) damaged() bool {
	for range 2 { // in case there were none for a moment
		if c.inspect().sound() {
			return false
		}
		f, err := os.Open(os.DevNull)
		if err != nil {
			return false
		}
		_ = f.Close()
	}
	return true
}

// use holds the install for sharing. Its lock lies beside it and stays when it
// is removed, so that everybody who ever asks for this name meets at one file.
func (c *cache) use(ctx context.Context) (release func() error, err error) {
	release, err = lock(ctx, c.path()+".lock", (*flock.Flock).TryRLockContext)
	if readOnly(err) {
		return func() error { return nil }, nil // nobody can remove it either
	}
	return release, err
}

func lock(ctx context.Context, path string, try func(*flock.Flock, context.Context, time.Duration) (bool, error)) (unlock func() error, err error) {
	l := flock.New(path)
	if _, err := try(l, ctx, 20*time.Millisecond); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l.Close, nil
}

// finding is what inspect found.
type finding struct {
	there  bool
	damage []string // files that are not as they were made
}

func (f finding) sound() bool { return f.there && len(f.damage) == 0 }

// inspect looks at the install. Where it had to hash, it renews the stamp.
func (c *cache) inspect() finding {
	switch err := onlyOurs(c.path()); {
	case errors.Is(err, fs.ErrNotExist):
		return finding{}
	case err != nil:
		return finding{there: true, damage: []string{"."}}
	}
	recorded, err := readStamp(c.path())
	if err != nil {
		return finding{there: true, damage: []string{"../" + stampName}}
	}
	if now, err := stampOf(c.path()); err == nil && now == recorded.state {
		return finding{there: true}
	}
	damage := c.damage(recorded.manifest)
	if len(damage) == 0 {
		c.restamp(recorded.manifest)
	}
	return finding{there: true, damage: damage}
}

// damage hashes the install. Its manifest must have the given hash.
func (c *cache) damage(manifestHash string) []string {
	data, err := os.ReadFile(c.path(manifestName))
	if err != nil || hashOf(data) != manifestHash {
		return []string{"../" + manifestName}
	}
	m, err := parseManifest(data, c.key)
	if err != nil {
		return []string{"../" + manifestName}
	}
	names, err := m.differences(c.path(rootName))
	if err != nil { // such as a directory that may not be read: not as we made it
		return []string{"."}
	}
	return names
}

// restamp records that the install is sound, or does not where it cannot: then
// the next start hashes again.
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
