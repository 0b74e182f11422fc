// Package workspace gives the host access to a tenant's files, in a directory that it treats as
// hostile: code in a sandbox creates every name, link and FIFO in it, and changes them during
// each operation.
//
// A workspace is one open directory and the names below it. No name resolves outside of it, no
// symbolic link is followed, only regular files are read or replaced, reads are bounded, and
// measuring and deleting need a fixed number of descriptors at any depth. A mount is a directory
// elsewhere that code sees read-only under a name at the top of the workspace; Files shows it
// there too.
//
// A Files is safe for concurrent use, also by several processes. The package does not know
// tenants. It checks the quota for writes of the host only. The sandbox enforces limits on code,
// and measures with Measure.
package workspace

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// Config of a Files.
type Config struct {
	Dir   string // the directory; it must exist. Required
	Owner int    // uid and gid of new files; 0 means those of the daemon
	Quota Quota  // checked before the host writes; zero means no limit
	// Refused is called with the key of a quota for each refusal; nil means no call.
	Refused  func(key string)
	Mounts   map[string]string // top-level name -> directory seen there, read-only; nil means none
	Unlisted string            // top-level directory that List and Each omit unless it is named; "" means none
	// Staging is a directory on the same file system for complete files that are about to
	// replace others; old files in it were left by killed processes. "" means the directory
	// of the replaced file, where code sees them.
	Staging string
}

// Files are the files of one workspace.
type Files struct {
	account
	cfg  Config
	dirs directories
}

// Open opens the workspace.
func Open(cfg Config) (*Files, error) {
	f := &Files{cfg: cfg, dirs: directories{dir: cfg.Dir, staged: cfg.Staging}}
	f.quota, f.refused, f.usage, f.free = cfg.Quota, cfg.Refused, f.Usage, f.dirs.free
	if _, err := f.dirs.root(); err != nil {
		return nil, err
	}
	return f, nil
}

// Close closes the descriptors. No other method may run; the next one opens what it needs.
func (f *Files) Close() error { return f.dirs.close() }

// Write creates or replaces a file atomically and durably: it is on disk when Write returns.
// Missing parent directories are created. An existing file keeps its permissions.
func (f *Files) Write(ctx context.Context, name string, content []byte) error {
	return f.WriteFrom(ctx, name, bytes.NewReader(content), int64(len(content)))
}

// WriteFrom is Write for content that is not in memory. It reads up to size bytes, and checks the
// quota for size.
func (f *Files) WriteFrom(ctx context.Context, name string, content io.Reader, size int64) error {
	p, err := f.writablePath(name)
	if err != nil {
		return err
	}
	more, err := f.additions(p, size)
	if err != nil {
		return explain(name, err)
	}
	done, err := f.Reserve(ctx, more.bytes, more.files)
	if err != nil {
		return err
	}
	defer done()
	parent, base := path.Split(p)
	d, err := f.makeDirs(path.Clean(parent))
	if err != nil {
		return explain(name, err)
	}
	defer d.Close()
	old, err := replaceable(d, base)
	if err != nil {
		return explain(name, err)
	}
	scratch, err := f.dirs.staging()
	if err != nil {
		return err
	}
	if err := writeFile(d, base, io.LimitReader(content, size), old.mode.Perm(), f.cfg.Owner, scratch); err != nil {
		return explain(name, err)
	}
	return nil
}

// replaceable returns the regular file base in d, or an entry with the permissions of a new file
// if there is none.
func replaceable(d *dir, base string) (entry, error) {
	e, err := d.stat(base)
	if isNotExist(err) {
		return entry{mode: 0o644}, nil
	}
	if err == nil && !e.mode.IsRegular() {
		err = notRegular(e.mode.Type())
	}
	return e, err
}

// makeDirs opens the directory p and creates missing ones in its path.
func (f *Files) makeDirs(p string) (*dir, error) {
	d, err := f.dirs.openDir(p)
	if !isNotExist(err) {
		return d, err
	}
	d, err = f.dirs.openDir(".")
	for _, name := range strings.Split(p, "/") {
		if err != nil {
			return nil, err
		}
		var next *dir
		next, err = makeDir(d, name, f.cfg.Owner)
		d.Close()
		d = next
	}
	return d, err
}

// makeDir opens or creates the directory name in d. A new directory gets its name only after its
// owner is set, because code may write into it at once.
func makeDir(d *dir, name string, owner int) (*dir, error) {
	sub, err := d.openDir(name)
	if !isNotExist(err) {
		return sub, err
	}
	scratch := scratchName()
	if err := d.mkdir(scratch); err != nil {
		return nil, err
	}
	if sub, err = d.openDir(scratch); err == nil {
		err = sub.setOwnerAndMode(owner, 0o755)
		if err == nil {
			err = d.rename(scratch, name)
		}
		if err == nil {
			return sub, d.sync()
		}
		sub.Close()
	}
	_ = d.remove(scratch, true)
	if errors.Is(err, fs.ErrExist) { // created concurrently
		return d.openDir(name)
	}
	return nil, err
}

// scratchName returns a unique temporary name.
func scratchName() string { return ".writing-" + strings.ToLower(rand.Text()) }

// Delete removes one file, link, FIFO or socket, or an empty directory.
func (f *Files) Delete(ctx context.Context, name string) error {
	p, err := f.writablePath(name)
	if err != nil {
		return err
	}
	parent, base := path.Split(p)
	d, err := f.dirs.openDir(path.Clean(parent))
	if err != nil {
		return explain(name, err)
	}
	defer d.Close()
	e, err := d.stat(base)
	if err == nil {
		err = d.remove(base, e.mode.IsDir())
	}
	if e.mode.IsDir() && errors.Is(err, syscall.ENOTEMPTY) {
		err = notRegular(fs.ModeDir)
	}
	if err == nil {
		err = d.sync()
	}
	return explain(name, err)
}

// Moved reports an entry that blocked a mount point and was renamed.
type Moved struct{ From, To string }

// PrepareMounts makes each name an empty directory at the top of the workspace. Other entries with
// these names are renamed, never deleted, and returned. It restores the owner's permissions on
// the workspace directory if code removed them.
func (f *Files) PrepareMounts(ctx context.Context, names ...string) ([]Moved, error) {
	w := walk{need: 0o700}
	all, err := f.dirs.root()
	if err != nil {
		return nil, err
	}
	d, err := w.openForWalk(all, ".")
	if err != nil {
		return nil, explain(".", err)
	}
	defer d.Close()
	if self, err := d.statSelf(); err == nil {
		d.addPermissions(self, w.need)
	}
	var moved []Moved
	for _, name := range names {
		m, err := prepareMount(d, name, f.cfg.Owner)
		moved = append(moved, m...)
		if err != nil {
			return moved, explain(name, err)
		}
	}
	return moved, nil
}

// prepareMount retries, because code may recreate entries concurrently.
func prepareMount(d *dir, name string, owner int) (moved []Moved, err error) {
	for range 10 {
		sub, err := makeDir(d, name, owner)
		if err == nil {
			first, readErr := sub.names(1)
			sub.Close()
			if len(first) == 0 && readErr == io.EOF {
				return moved, nil
			}
		} else if !isUnusable(err) {
			return moved, err
		}
		to, err := moveAside(d, name)
		if err != nil && !isNotExist(err) {
			return moved, err
		}
		if err == nil {
			moved = append(moved, Moved{name, to})
		}
	}
	return moved, fmt.Errorf("the mount point %q is replaced repeatedly by running code", name)
}

// moveAside renames name to the first free name.moved-N.
func moveAside(d *dir, name string) (string, error) {
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s.moved-%d", name, n)
		err := d.rename(name, to)
		if !isExist(err) {
			return to, err
		}
	}
}
