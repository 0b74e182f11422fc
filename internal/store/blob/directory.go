package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// unfinished is the directory of the files of creates that have not ended, below the bucket's. No key is below it.
const unfinished = ".new"

// abandonedAfter is the age from which the file of a create was left by a process that died.
const abandonedAfter = 24 * time.Hour

// directory keeps each object in a file at its key. An object is created by a hard link to a complete and synced
// file, which fails if the name exists: the only such operation that is atomic between processes, machines that
// share a file system, and the systems that Go supports.
type directory struct {
	name name
	root string

	mu     sync.Mutex
	synced map[string]bool // directories whose entries in all above them are on disk; they are never removed
}

// maxSynced limits the directories that are remembered.
const maxSynced = 10000

func openDirectory(_ context.Context, n name, u *url.URL) (driver, string, error) {
	root := filepath.FromSlash(u.Path)
	if runtime.GOOS == "windows" { // file:///C:/dir
		root = strings.TrimPrefix(root, `\`)
	}
	if u.Host != "" || !filepath.IsAbs(root) {
		return nil, "", n.invalid(nil, "it must be file:// and an absolute path, with three slashes")
	}
	d := &directory{name: n, root: root, synced: map[string]bool{}}
	if info, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return nil, "", n.noBucket(err)
	} else if err != nil {
		return nil, "", d.failed(context.Background(), "open the directory", err)
	} else if !info.IsDir() {
		return nil, "", n.invalid(nil, "it is not a directory")
	}
	d.removeAbandoned()
	return d, "", nil
}

// removeAbandoned removes files of creators that were killed. They are no objects, so errors do not matter.
func (d *directory) removeAbandoned() {
	files, _ := os.ReadDir(filepath.Join(d.root, unfinished))
	for _, f := range files {
		if info, err := f.Info(); err == nil && time.Since(info.ModTime()) > abandonedAfter {
			_ = os.Remove(filepath.Join(d.root, unfinished, f.Name()))
		}
	}
}

func (d *directory) close() error { return nil }

// path returns the file of a key.
func (d *directory) path(key string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(key)) { // a name of a device on Windows
		return "", d.name.invalid(nil, "the key %q is no file name on this system", key)
	}
	return filepath.Join(d.root, filepath.FromSlash(key)), nil
}

func (d *directory) put(ctx context.Context, key string, body []byte) error {
	return d.putParts(ctx, key, parts(body, bytes.NewReader(nil)))
}

func (d *directory) putParts(ctx context.Context, key string, parts iter.Seq2[part, error]) error {
	file, err := d.path(key)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(file); err == nil {
		return d.taken(key, file) // without writing a body
	}
	if _, err := os.Stat(d.root); err != nil { // it is created by a person: it could be the mount point of a disk
		return d.failed(ctx, creating(key), err)
	}
	if err := os.MkdirAll(filepath.Join(d.root, unfinished), 0o700); err != nil {
		return d.failed(ctx, creating(key), err)
	}
	f, err := os.CreateTemp(filepath.Join(d.root, unfinished), "*")
	if err != nil {
		return d.failed(ctx, creating(key), err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	for part, err := range parts {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return d.name.unavailable(ctx, creating(key), context.Cause(ctx))
		}
		if _, err := f.Write(part.data); err != nil {
			return d.failed(ctx, creating(key), err)
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return d.failed(ctx, creating(key), err)
	}
	return d.link(ctx, key, f.Name(), file)
}

// link gives a complete file the name of its key, durably.
func (d *directory) link(ctx context.Context, key, from, to string) error {
	dir := filepath.Dir(to)
	if err := d.makeDir(dir); err != nil {
		return d.failed(ctx, creating(key), err)
	}
	err := os.Link(from, to)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrExist) && sameFile(from, to): // NFS: the answer to a first request was lost
	case errors.Is(err, fs.ErrExist):
		return d.taken(key, to)
	default:
		return d.failed(ctx, creating(key), err)
	}
	if err := durable.SyncDir(dir); err != nil { // it exists, and may not survive
		return d.name.unknown(key, err)
	}
	return nil
}

// makeDir makes a directory below the root whose name survives a loss of power. Another process may have made and not
// yet synced it, so each process syncs each directory once.
func (d *directory) makeDir(dir string) error {
	d.mu.Lock()
	known := d.synced[dir]
	d.mu.Unlock()
	if known {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for above := dir; above != d.root; {
		above = filepath.Dir(above)
		if err := durable.SyncDir(above); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.synced) >= maxSynced {
		clear(d.synced)
	}
	d.synced[dir] = true
	return nil
}

// sameFile reports whether two names are those of one file.
func sameFile(a, b string) bool {
	left, err := os.Lstat(a)
	if err != nil {
		return false
	}
	right, err := os.Lstat(b)
	return err == nil && os.SameFile(left, right)
}

// taken is the error of a create whose name exists.
func (d *directory) taken(key, file string) error {
	if info, err := os.Lstat(file); err == nil && info.IsDir() {
		return d.name.invalid(nil, "the key %q is a directory of other keys", key)
	}
	return d.name.exists(key)
}

func (d *directory) get(ctx context.Context, key string, r Range) (*Reader, error) {
	file, err := d.path(key)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, d.name.unavailable(ctx, reading(key), context.Cause(ctx))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, d.readFault(ctx, key, err)
	}
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		f.Close()
		return nil, d.readFault(ctx, key, errors.Join(err, fs.ErrNotExist))
	}
	offset, length := r.within(info.Size())
	content := struct {
		io.Reader
		io.Closer
	}{&contextReader{ctx, io.NewSectionReader(f, offset, length)}, f}
	return &Reader{Object{key, info.Size(), info.ModTime()}, content}, nil
}

// readFault returns NotFound only if the directory of the bucket exists.
func (d *directory) readFault(ctx context.Context, key string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if _, lost := os.Stat(d.root); lost == nil {
			return d.name.notFound(key)
		}
	}
	return d.failed(ctx, reading(key), err)
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

func (d *directory) list(ctx context.Context, prefix, after string, yield func(Object) bool) error {
	if _, err := os.Stat(d.root); err != nil {
		return d.failed(ctx, listing(prefix), err)
	}
	l := &directoryList{d: d, ctx: ctx, prefix: prefix, after: after, yield: yield}
	if _, err := l.visit(path.Dir("/" + prefix + "x")[1:]); err != nil {
		return d.failed(ctx, listing(prefix), err)
	}
	return nil
}

func (d *directory) delete(ctx context.Context, key string) error {
	file, err := d.path(key)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return d.name.unavailable(ctx, deleting(key), context.Cause(ctx))
	}
	if info, err := os.Lstat(file); err == nil && info.IsDir() {
		return nil
	}
	switch err := os.Remove(file); {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		if _, err := os.Stat(d.root); err != nil {
			return d.failed(ctx, deleting(key), err)
		}
		return nil
	case err != nil:
		return d.failed(ctx, deleting(key), err)
	}
	if err := durable.SyncDir(filepath.Dir(file)); err != nil {
		return d.failed(ctx, deleting(key), err)
	}
	return nil
}

// failed returns the error of an operation on the file system that has not happened.
func (d *directory) failed(ctx context.Context, op operation, err error) error {
	_, lost := os.Stat(d.root)
	switch {
	case errors.Is(lost, fs.ErrNotExist):
		return d.name.noBucket(err)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return d.name.denied(op, err)
	case errors.Is(err, syscall.ENOTDIR):
		return d.name.invalid(err, "it could not %s: another key is a directory of it, or the reverse", op)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return d.name.invalid(err, "it could not %s: the path is too long", op)
	}
	return d.name.unavailable(ctx, op, err)
}
