package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// maxListed bounds the number of files in a Listing.
const maxListed = 10_000

// Listing contains the names of files below a directory.
type Listing struct {
	Files     []string // relative to the workspace, sorted; invalid UTF-8 in a name is replaced by U+FFFD
	Truncated bool     // some files are missing: too many, too deep, or not readable
}

// List returns the regular files in subpath, recursively. Mounts and Config.Unlisted are omitted
// unless subpath names one.
func (f *Files) List(ctx context.Context, subpath string) (Listing, error) {
	return f.find(ctx, subpath, time.Time{})
}

// fileClock is the resolution of file times: the kernel updates their clock once per tick.
const fileClock = 10 * time.Millisecond

// Changed is List for the files that were written, renamed or made accessible since a time.
func (f *Files) Changed(ctx context.Context, subpath string, since time.Time) (Listing, error) {
	return f.find(ctx, subpath, since.Add(-fileClock))
}

// find lists the files in subpath that changed since a time.
func (f *Files) find(ctx context.Context, subpath string, since time.Time) (Listing, error) {
	l := Listing{Files: []string{}}
	missed, err := f.each(ctx, subpath, func(name string, e entry) error {
		if e.changed.Before(since) {
			return nil
		}
		if len(l.Files) == maxListed {
			return errStop
		}
		l.Files = append(l.Files, name)
		return nil
	})
	if errors.Is(err, errStop) {
		missed, err = true, nil
	}
	l.Truncated = missed
	slices.Sort(l.Files)
	return l, err
}

// Each calls found with the name of each file that List would return without a limit, in no
// order. It reports whether files are missing: too deep, or not readable.
func (f *Files) Each(ctx context.Context, subpath string, found func(name string) error) (missed bool, err error) {
	return f.each(ctx, subpath, func(name string, _ entry) error { return found(name) })
}

func (f *Files) each(ctx context.Context, subpath string, found func(string, entry) error) (missed bool, err error) {
	p, err := clean(subpath)
	if err != nil {
		return false, err
	}
	d, rel, err := f.locate(p)
	if err != nil {
		return false, err
	}
	start, err := d.openDir(rel)
	if errors.Is(err, errNotDir) {
		return false, fault.Wrap(fault.Invalid, err, "%s is not a directory", fault.Quoted(subpath))
	}
	if err != nil {
		return false, explain(subpath, err)
	}
	defer start.Close()
	prefix := ""
	if p != "." {
		prefix = p + "/"
	}
	w := walk{start: start}
	w.file = func(_ *dir, name string, e entry) error {
		if !e.mode.IsRegular() {
			return nil
		}
		return found(strings.ToValidUTF8(prefix+w.path()+name, "\uFFFD"), e)
	}
	w.enter = func(name string) bool {
		at := path.Join(prefix, name)
		if _, mounted := f.cfg.Mounts[at]; w.depth() == 1 && (mounted || at == f.cfg.Unlisted) {
			return false
		}
		fits := len(prefix)+len(w.path())+len(name)+1+maxName <= maxPath
		w.missed = w.missed || !fits
		return fits
	}
	err = w.run(ctx)
	return w.missed, err
}

// Usage is the disk usage of a workspace.
type Usage struct {
	Bytes      int64  // on disk, including directories; a file with several names counts once
	Files      int64  // names of non-directories
	Dirs       int64  // directories below the root
	Largest    []File // the largest files, largest first
	Incomplete bool   // something could not be measured: the values are lower bounds
}

// Usage measures the workspace. It makes unreadable directories readable, because they would hide
// their content. Entries that move during the walk may be missed, which is reported, or counted
// twice.
func (f *Files) Usage(ctx context.Context) (Usage, error) {
	var u Usage
	seen := make(map[identity]bool) // files with several names
	start, err := f.dirs.root()
	if err != nil {
		return u, err
	}
	w := walk{start: start, need: 0o500}
	w.file = func(_ *dir, name string, e entry) error {
		u.Files++
		if e.links >= 2 && seen[e.id] {
			return nil
		}
		u.Bytes += e.blocks
		(*largest)(&u.Largest).add(e, func() string { return w.path() + name })
		if e.links >= 2 {
			seen[e.id] = true
		}
		return nil
	}
	w.opened = func(e entry) {
		u.Bytes += e.blocks
		u.Dirs++
	}
	err = w.run(ctx)
	u.Dirs = max(0, u.Dirs-1)
	u.Incomplete = w.missed
	return u, err
}

// Measure returns the Usage of the workspace in dir. With an error it returns a lower bound.
func Measure(ctx context.Context, dir string) (Usage, error) {
	f, err := Open(Config{Dir: dir})
	if err != nil {
		return Usage{}, err
	}
	defer f.Close()
	u, err := f.Usage(ctx)
	if err == nil && u.Incomplete {
		err = fault.New(fault.Unavailable, "a part of the workspace cannot be measured")
	}
	return u, err
}

// Chown changes the owner of everything in the workspace, and of its directory, to uid.
func (f *Files) Chown(ctx context.Context, uid int) error {
	start, err := f.dirs.root()
	if err != nil {
		return err
	}
	w := walk{start: start}
	w.file = func(d *dir, name string, _ entry) error { return d.chown(name, uid) }
	w.leave = func(d *dir, name string) {
		if d.chown(name, uid) != nil {
			w.missed = true
		}
	}
	err = w.run(ctx)
	if err == nil && w.missed {
		err = fault.New(fault.Unavailable, "change the owner of the workspace: an entry is being changed")
	}
	if err != nil {
		return err
	}
	return start.chown(".", uid)
}

// errStop ends a walk early.
var errStop = errors.New("stop")

// walk traverses a tree depth first with two open directories, the start and the current one. It
// returns to a parent through "..", and checks that this is the directory it came from;
// otherwise it descends from the start again. Entries that move during the walk are missed.
type walk struct {
	start  *dir
	need   fs.FileMode                              // permissions added to directories that lack them; 0 adds none
	file   func(d *dir, name string, e entry) error // called for each non-directory
	enter  func(name string) bool                   // reports whether to enter a directory; nil means all
	opened func(e entry)                            // called for each entered directory; may be nil
	leave  func(parent *dir, name string)           // called after each directory; may be nil
	unique bool                                     // visit a name once, even if it is created again while its directory is read

	missed bool // something was not visited

	here   *dir
	levels []level
	prefix []byte // the path of here, with a slash at its end
}

// level is one directory between the start and here.
type level struct {
	name    string
	id      identity
	prefix  int      // length of the path of its parent
	pending []string // subdirectories not yet entered
}

func (w *walk) path() string { return string(w.prefix) }
func (w *walk) depth() int   { return len(w.levels) }

func (w *walk) run(ctx context.Context) (err error) {
	if w.here, err = w.openForWalk(w.start, "."); err != nil {
		return explain(".", err)
	}
	defer func() { w.here.Close() }()
	if err := w.push(ctx, "."); err != nil {
		return err
	}
	for {
		top := &w.levels[len(w.levels)-1]
		if n := len(top.pending); n > 0 {
			name := top.pending[n-1]
			top.pending = top.pending[:n-1]
			err = w.descend(ctx, name)
		} else if len(w.levels) == 1 {
			return nil
		} else {
			err = w.ascend()
		}
		if err != nil {
			return err
		}
	}
}

// descend enters the directory called name.
func (w *walk) descend(ctx context.Context, name string) error {
	if w.enter != nil && !w.enter(name) {
		return nil
	}
	sub, err := w.openForWalk(w.here, name)
	if err != nil {
		w.missed = w.missed || !isNotExist(err)
		return nil
	}
	w.here.Close()
	w.here = sub
	w.prefix = append(append(w.prefix, name...), '/')
	return w.push(ctx, name)
}

// openForWalk opens the directory called name in d, after changing its permissions if necessary.
func (w *walk) openForWalk(d *dir, name string) (*dir, error) {
	sub, err := d.openDir(name)
	if errors.Is(err, fs.ErrPermission) && w.need != 0 {
		return d.openClosedDir(name)
	}
	return sub, err
}

// push reads the current directory: it visits files and queues directories.
func (w *walk) push(ctx context.Context, name string) error {
	self, err := w.here.statSelf()
	if err != nil {
		return explain(name, err)
	}
	if w.opened != nil {
		w.opened(self)
	}
	w.here.addPermissions(self, w.need)
	l := level{name: name, id: self.id, prefix: max(0, len(w.prefix)-len(name)-1)}
	w.levels = append(w.levels, l)
	top := &w.levels[len(w.levels)-1]
	visited := map[string]bool{}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		names, err := w.here.names(1024)
		for _, name := range names {
			if w.unique && visited[name] {
				continue
			}
			if w.unique {
				visited[name] = true
			}
			if err := w.visit(top, name); err != nil {
				return err
			}
		}
		if err != nil {
			w.missed = w.missed || err != io.EOF
			return nil
		}
	}
}

func (w *walk) visit(l *level, name string) error {
	e, err := w.here.stat(name)
	switch {
	case err != nil:
		w.missed = w.missed || !isNotExist(err)
		return nil
	case e.mode.IsDir():
		l.pending = append(l.pending, name)
		return nil
	}
	return w.file(w.here, name, e)
}

// ascend returns to the parent of here.
func (w *walk) ascend() error {
	done := w.levels[len(w.levels)-1]
	w.levels = w.levels[:len(w.levels)-1]
	w.prefix = w.prefix[:done.prefix]
	parent, err := w.here.parent()
	if err == nil && !hasIdentity(parent, w.levels[len(w.levels)-1].id) {
		parent.Close()
		err = errStop
	}
	if err != nil {
		depth := len(w.levels)
		if parent, err = w.reopenParent(); err != nil {
			return explain(".", err)
		}
		if len(w.levels) < depth { // the parent of done is gone
			w.missed = true
			w.here.Close()
			w.here = parent
			return nil
		}
	}
	w.here.Close()
	w.here = parent
	if w.leave != nil {
		w.leave(parent, done.name)
	}
	return nil
}

// reopenParent descends from the start while the levels are unchanged, and drops the others.
func (w *walk) reopenParent() (*dir, error) {
	d, err := w.start.openDir(".")
	if err != nil {
		return nil, err
	}
	for i := 1; i < len(w.levels); i++ {
		sub, err := d.openDir(w.levels[i].name)
		if err == nil && !hasIdentity(sub, w.levels[i].id) {
			sub.Close()
			err = errStop
		}
		if err != nil {
			w.prefix = w.prefix[:w.levels[i].prefix]
			w.levels = w.levels[:i]
			return d, nil
		}
		d.Close()
		d = sub
	}
	return d, nil
}

func hasIdentity(d *dir, id identity) bool {
	e, err := d.statSelf()
	return err == nil && e.id == id
}
