package home

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Entries calls add for each entry of a backup.
type Entries func(add func(*tar.Header, io.Reader) error) error

// Restore creates a tenant from a backup. With replace, the data of a suspended tenant is replaced,
// and it remains suspended; otherwise a tenant that exists is refused. All entries are read and
// checked before anything changes.
func (t Directory) Restore(ctx context.Context, id tenant.ID, replace bool, entries Entries) (done workspace.Archived, err error) {
	last, lock, err := t.lockForRestore(ctx, id, replace)
	if err != nil {
		return done, err
	}
	if lock != nil {
		defer lock.Close()
	}
	dir, remove, err := t.layout.transferDir()
	if err != nil {
		return done, err
	}
	defer remove()
	x, err := newExtraction(layout{dir, t.layout.features}, id.Dir())
	if err != nil {
		return done, err
	}
	defer x.close()
	if err = entries(func(h *tar.Header, r io.Reader) error { _, err := x.add(h, r); return err }); err == nil {
		err = x.finish(ctx)
	}
	if err != nil {
		return done, err
	}
	staged := layout{root: dir}.of(id)
	if len(x.tenants) == 0 {
		return done, errNotInBackup(id)
	}
	if err := mkdir(staged.workspace, 0o700); err != nil {
		return done, dirFault(err)
	}
	if lock != nil {
		err = t.layout.replace(id, staged.private, staged.workspace, last)
		return x.done, errors.Join(err, t.layout.wake(id, x.pending[id]))
	}
	saved, err := staged.suspension()
	if err != nil {
		return done, err
	}
	if err := t.layout.install(id, staged.private, staged.workspace, saved, hintRestore(id, saved)); err != nil {
		return x.done, err
	}
	return x.done, t.layout.wake(id, x.pending[id])
}

// lockForRestore locks a tenant that is to be replaced, and returns the suspension that it will have. The
// lock of a new one is nil.
func (t Directory) lockForRestore(ctx context.Context, id tenant.ID, replace bool) (*Suspension, *flock.Flock, error) {
	e, err := t.Find(id)
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil, t.layout.checkNew(id, "delete what is left of it with sandpiper tenant delete "+id.String())
	}
	if err == nil && !replace {
		return nil, nil, errExists(id, hintRestore(id, e.Suspension))
	}
	if err != nil {
		return nil, nil, err
	}
	if e.Suspension == nil {
		return nil, nil, fault.New(fault.Invalid, "tenant %q is active: its data is not replaced", id).
			WithHint("suspend it first: `sandpiper tenant suspend %s`", id)
	}
	last := e.Suspension
	if last.Deleting {
		last = &Suspension{Reason: "restored"}
	}
	lock, err := t.layout.of(id).lockExclusively(ctx, id, "restore")
	return last, lock, err
}

// extraction creates data of tenants from the entries of a backup.
type extraction struct {
	layout  layout
	root    *os.Root
	only    string               // directory of one tenant; "" means all
	tenants []string             // their directories, in order
	used    map[string]time.Time // last use, by directory
	pending map[tenant.ID]pending
	files   *workspace.Extraction
	in      string // the prefix of files
	done    workspace.Archived
}

func newExtraction(l layout, only string) (*extraction, error) {
	for _, dir := range []string{l.private(), l.workspaces()} {
		if err := mkdir(dir, 0o711); err != nil {
			return nil, l.fault(err)
		}
	}
	root, err := os.OpenRoot(l.root)
	if err != nil {
		return nil, l.fault(err)
	}
	return &extraction{layout: l, root: root, only: only, used: map[string]time.Time{}, pending: map[tenant.ID]pending{}}, nil
}

func (x *extraction) close() error {
	err := x.root.Close()
	if x.files != nil {
		err = errors.Join(err, x.files.Close())
	}
	return err
}

// add creates an entry, and reports whether it is one of a tenant.
func (x *extraction) add(h *tar.Header, content io.Reader) (bool, error) {
	of, rest, _ := strings.Cut(h.Name, "/")
	dir, rest, _ := strings.Cut(rest, "/")
	if of != privateDir && of != rootWorkspaces {
		return false, nil
	}
	if dir == "" || dir == "." || dir == ".." {
		return true, fmt.Errorf("the name %.80q is not allowed", h.Name)
	}
	if x.only != "" && dir != x.only {
		return true, nil
	}
	if of == privateDir {
		return true, x.addPrivate(h, dir, rest, content)
	}
	if rest == "" {
		return true, x.beginWorkspace(h, dir)
	}
	if x.files == nil || x.in != path.Join(of, dir)+"/" {
		return true, fmt.Errorf("%.80q is outside of its workspace", h.Name)
	}
	return true, x.files.Add(h, x.in, content)
}

func (x *extraction) addPrivate(h *tar.Header, dir, name string, content io.Reader) error {
	login, ofLogins := strings.CutPrefix(name, loginsDir+"/")
	if ofLogins && (login == "" || strings.Contains(login, "/")) || !ofLogins && !slices.Contains(backedUp, name) {
		return fmt.Errorf("the name %.80q is not allowed", h.Name)
	}
	if n := len(x.tenants); n == 0 || x.tenants[n-1] != dir { // the entries of a tenant are adjacent
		x.tenants = append(x.tenants, dir)
	}
	if name == databaseEntry && h.ModTime.Unix() > 0 {
		x.used[dir] = h.ModTime
	}
	return x.createFile(h, content)
}

// createFile creates a file, and its directories, below the root.
func (x *extraction) createFile(h *tar.Header, content io.Reader) error {
	if h.Typeflag != tar.TypeReg {
		return fmt.Errorf("%.80q is a %q, which is not allowed", h.Name, h.Typeflag)
	}
	if err := x.root.MkdirAll(path.Dir(h.Name), 0o700); err != nil {
		return err
	}
	f, err := x.root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (x *extraction) beginWorkspace(h *tar.Header, dir string) error {
	if err := x.endWorkspace(); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeDir {
		return fmt.Errorf("%.80q is a %q, which is not allowed", h.Name, h.Typeflag)
	}
	name := path.Join(rootWorkspaces, dir)
	if err := x.root.Mkdir(name, 0o700); err != nil {
		return err
	}
	var err error
	x.in = name + "/"
	x.files, err = workspace.NewExtraction(filepath.Join(x.layout.root, name), workspace.Quota{})
	return err
}

func (x *extraction) endWorkspace() error {
	if x.files == nil {
		return nil
	}
	got, err := x.files.Finish()
	x.done.Files, x.done.Bytes = x.done.Files+got.Files, x.done.Bytes+got.Bytes
	err = errors.Join(err, x.files.Close())
	x.files = nil
	return err
}

// finish checks what was created, and syncs it to disk.
func (x *extraction) finish(ctx context.Context) error {
	if err := x.endWorkspace(); err != nil {
		return err
	}
	for _, dir := range x.tenants {
		id, ok, err := x.layout.idOf(dir)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("the directory %.80q belongs to no tenant", dir)
		}
		p := x.layout.of(id)
		if err := p.setUsed(x.used[dir]); err != nil {
			return err
		}
		_, err = os.Lstat(p.db)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has none yet
		}
		if err != nil {
			return err
		}
		work, err := checkCopy(ctx, x.layout, p.db)
		if err := errors.Join(err, store.CheckIntegrity(ctx, p.db)); err != nil {
			return fmt.Errorf("the database of tenant %q: %w", id, err)
		}
		if err := forgetCommits(ctx, x.layout, p.db); err != nil {
			return err
		}
		x.pending[id] = work
		if err := durable.SyncDir(p.private); err != nil {
			return err
		}
	}
	return errors.Join(durable.SyncDir(x.layout.private()), durable.SyncDir(x.layout.workspaces()))
}

// forgetCommits deletes the number of the last commit of a database from a backup: what is recorded of
// this data directory is about other commits.
func forgetCommits(ctx context.Context, l layout, path string) error {
	db, err := openDatabase(ctx, l, path)
	if err != nil {
		return err
	}
	return errors.Join(store.ForgetCommits(ctx, db), db.Close())
}
