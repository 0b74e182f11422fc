// Package workspace gives the host access to a tenant's files, and treats the
// place where they lie as hostile: code in a sandbox makes every name, link,
// FIFO and directory in it, and changes them while we look.
//
// So a workspace is one open directory and names beneath it. No name leads out
// of it, no symbolic link is followed, nothing but a regular file is read or
// replaced, nothing read is longer than asked for, and measuring and deleting
// need the same few descriptors whatever the depth of the tree. A mount is a
// directory elsewhere that code sees read-only under a name at the top of the
// workspace; here it is seen there too.
//
// A Files is safe for concurrent use, also by several processes. The package
// does not know tenants. Its quota is checked for what the host writes, and not
// enforced on code: limits inside a sandbox are the sandbox's, which measures
// with Measure.
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

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Config of a Files.
type Config struct {
	Dir    string            // the directory; it must exist. Required
	Owner  int               // uid and gid that new files get; 0 means those of the daemon
	Quota  Quota             // checked before the host writes; zero means no bound
	Mounts map[string]string // top-level name -> directory seen there, read-only; nil means none
	// Scratch is a directory on the same file system where a whole file waits
	// before it replaces another; what is in there and old was left by a process
	// that died. "" means beside the other, where code sees it.
	Scratch string
}

// Files are the files of one workspace.
type Files struct {
	cfg    Config
	root   *dir
	aside  *dir // Scratch; nil without one
	mounts map[string]*dir

	account account
}

// Open opens the workspace. The directories stay open until Close.
func Open(cfg Config) (*Files, error) {
	root, err := openRoot(cfg.Dir)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the workspace cannot be opened")
	}
	f := &Files{cfg: cfg, root: root, mounts: make(map[string]*dir)}
	if cfg.Scratch != "" {
		if f.aside, err = openRoot(cfg.Scratch); err != nil {
			f.aside = nil
			f.Close()
			return nil, fault.Wrap(fault.Unavailable, err, "the place for files that are being written cannot be opened")
		}
	}
	for name, from := range cfg.Mounts {
		if f.mounts[name], err = openRoot(from); err != nil {
			delete(f.mounts, name)
			f.Close()
			return nil, fault.Wrap(fault.Unavailable, err, "what is shown as %s in the workspace cannot be opened", name)
		}
	}
	return f, nil
}

// Close gives the descriptors back. Nothing else may be called after it.
func (f *Files) Close() error {
	for _, m := range f.mounts {
		m.Close()
	}
	if f.aside != nil {
		f.aside.Close()
	}
	return f.root.Close()
}

// Write makes the file, or replaces what it held, at once and durably: nobody
// ever sees half of it, and it is on disk when Write returns. Directories on
// the way are made. A file that was there keeps its permissions.
func (f *Files) Write(ctx context.Context, name string, content []byte) error {
	return f.WriteFrom(ctx, name, bytes.NewReader(content), int64(len(content)))
}

// WriteFrom is Write for content that is not in memory. It reads up to size
// bytes; size is what the quota is asked for.
func (f *Files) WriteFrom(ctx context.Context, name string, content io.Reader, size int64) error {
	p, err := f.own(name)
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
	old, err := d.replaceable(base)
	if err != nil {
		return explain(name, err)
	}
	if err := d.write(base, io.LimitReader(content, size), old.mode.Perm(), f.cfg.Owner, f.aside); err != nil {
		return explain(name, err)
	}
	return nil
}

// replaceable returns what is called base in d: a regular file, or nothing with
// the permissions of a new one.
func (d *dir) replaceable(base string) (entry, error) {
	e, err := d.stat(base)
	if isNotExist(err) {
		return entry{mode: 0o644}, nil
	}
	if err == nil && !e.mode.IsRegular() {
		err = notRegular(e.mode.Type())
	}
	return e, err
}

// makeDirs opens the directory p, making what is missing on the way.
func (f *Files) makeDirs(p string) (*dir, error) {
	d, err := f.root.openDir(p)
	if !isNotExist(err) {
		return d, err
	}
	d, err = f.root.openDir(".")
	for _, name := range strings.Split(p, "/") {
		if err != nil {
			return nil, err
		}
		var next *dir
		next, err = d.makeDir(name, f.cfg.Owner)
		d.Close()
		d = next
	}
	return d, err
}

// makeDir opens the directory called name in d, making it if there is none. It
// gets its name only when it belongs to its owner: code may be about to write
// into it.
func (d *dir) makeDir(name string, owner int) (*dir, error) {
	sub, err := d.openDir(name)
	if !isNotExist(err) {
		return sub, err
	}
	scratch := scratchName()
	if _, err := d.mkdir(scratch); err != nil {
		return nil, err
	}
	if sub, err = d.openDir(scratch); err == nil {
		err = sub.give(owner, 0o755)
		if err == nil {
			err = d.rename(scratch, name)
		}
		if err == nil {
			return sub, d.sync()
		}
		sub.Close()
	}
	_ = d.remove(scratch, true)
	if errors.Is(err, fs.ErrExist) { // somebody was faster
		return d.openDir(name)
	}
	return nil, err
}

// scratchName is a name that nobody else takes.
func scratchName() string { return ".writing-" + strings.ToLower(rand.Text()) }

// Delete removes one file; a link, FIFO or socket too, but no directory.
func (f *Files) Delete(ctx context.Context, name string) error {
	p, err := f.own(name)
	if err != nil {
		return err
	}
	parent, base := path.Split(p)
	d, err := f.root.openDir(path.Clean(parent))
	if err != nil {
		return explain(name, err)
	}
	defer d.Close()
	e, err := d.stat(base)
	if err == nil && e.mode.IsDir() {
		err = notRegular(fs.ModeDir)
	}
	if err == nil {
		err = d.remove(base, false)
	}
	if err == nil {
		err = d.sync()
	}
	return explain(name, err)
}

// Moved says that something lay where a mount point has to be.
type Moved struct{ From, To string }

// Prepare makes sure that each name is an empty directory at the top of the
// workspace, to mount on. What else is found there is renamed, never deleted,
// and reported. A workspace that code has closed to us is opened again.
func (f *Files) Prepare(ctx context.Context, names ...string) ([]Moved, error) {
	w := walk{need: 0o700}
	d, err := w.enterable(f.root, ".")
	if err != nil {
		return nil, explain(".", err)
	}
	defer d.Close()
	if self, err := d.self(); err == nil {
		d.allow(self, w.need)
	}
	var moved []Moved
	for _, name := range names {
		m, err := d.prepare(name, f.cfg.Owner)
		moved = append(moved, m...)
		if err != nil {
			return moved, explain(name, err)
		}
	}
	return moved, nil
}

// prepare tries a few times, since code may plant things as fast as we move
// them away.
func (d *dir) prepare(name string, owner int) (moved []Moved, err error) {
	for range 10 {
		sub, err := d.makeDir(name, owner)
		if err == nil {
			first, readErr := sub.names(1)
			sub.Close()
			if len(first) == 0 && readErr == io.EOF {
				return moved, nil
			}
		} else if !isPlanted(err) {
			return moved, err
		}
		to, err := d.moveAside(name)
		if err != nil && !isNotExist(err) {
			return moved, err
		}
		if err == nil {
			moved = append(moved, Moved{name, to})
		}
	}
	return moved, fmt.Errorf("the mount point %q is being replaced all the time", name)
}

// moveAside renames name to the first free name.moved-N.
func (d *dir) moveAside(name string) (string, error) {
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s.moved-%d", name, n)
		err := d.rename(name, to)
		if !isExist(err) {
			return to, err
		}
	}
}
