package home

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// Restoration creates a data directory from the entries of a backup. Until Commit no process can use
// it: it has a file "restoring", and no format. A Restoration that was killed is repeated by the next
// one, which removes what the first created.
type Restoration struct {
	layout layout
	lock   *flock.Flock // of the file restoring
	files  *extraction
}

// mayExist are the entries of a directory in which a data directory can be restored.
var mayExist = map[string]bool{"key": true, "key.lock": true, "key.fingerprint": true, "lost+found": true, "restoring": true}

// StartRestore prepares an empty or missing directory for a program with features. It may contain the
// master key.
func StartRestore(root string, features []Feature) (*Restoration, error) {
	l, err := newLayout(root)
	if err != nil {
		return nil, err
	}
	l.features = features
	if err := os.MkdirAll(l.root, 0o700); err != nil {
		return nil, l.fault(err)
	}
	_, err = os.Lstat(l.restoring())
	again := err == nil
	if !again { // before anything is created
		if err := (preparation{l}).checkEmpty(); err != nil {
			return nil, err
		}
	}
	lock := flock.New(l.restoring(), flock.SetPermissions(0o600))
	if ok, err := lock.TryLock(); !ok {
		return nil, errors.Join(lock.Close(), fault.Wrap(fault.Unavailable, err,
			"another process restores a backup to the data directory %s", l.root))
	}
	r := &Restoration{layout: l, lock: lock}
	if _, err := os.Lstat(l.formatFile()); again && errors.Is(err, fs.ErrNotExist) {
		err = r.clear()
		if err != nil {
			return nil, errors.Join(l.fault(err), lock.Close())
		}
	}
	if err = (preparation{l}).checkEmpty(); err == nil { // a daemon that starts now finds the file
		r.files, err = newExtraction(l, "")
	}
	if err != nil {
		return nil, errors.Join(err, remove(l.restoring()), lock.Close())
	}
	return r, nil
}

// checkEmpty refuses a directory with anything that a restore would mix with its own files.
func (l preparation) checkEmpty() error {
	fi, err := os.Stat(l.root)
	if err == nil && !ownedByUser(fi) {
		return fault.New(fault.Denied, "the data directory %s belongs to another user", l.root).
			WithHint("run the restore as the user that runs Sandpiper")
	}
	entries, err := os.ReadDir(l.root)
	if err != nil {
		return l.fault(err)
	}
	for _, e := range entries {
		if !mayExist[e.Name()] && !strings.HasPrefix(e.Name(), newPrefix) {
			return fault.New(fault.Invalid, "the data directory %s is not empty: it has %q; nothing was changed", l.root, e.Name()).
				WithHint("restore to an empty or new directory (data_dir in the configuration), or a single tenant with --tenant")
		}
	}
	return nil
}

// Add creates the file of an entry, or an entry of a tenant.
func (r *Restoration) Add(h *tar.Header, content io.Reader) error {
	if ok, err := r.files.add(h, content); ok || err != nil {
		return err
	}
	return r.files.createFile(h, content)
}

// Tenants returns the number of tenants so far, and the content of their workspaces.
func (r *Restoration) Tenants() (int, workspace.Archived) { return len(r.files.tenants), r.files.done }

// Commit checks the databases and makes the directory usable.
func (r *Restoration) Commit(ctx context.Context) error {
	if err := r.files.finish(ctx); err != nil {
		return err
	}
	for id, work := range r.files.pending {
		if err := r.layout.wake(id, work); err != nil {
			return r.layout.fault(err)
		}
	}
	if err := os.Chmod(r.layout.root, 0o700); err != nil {
		return r.layout.fault(err)
	}
	entries, err := os.ReadDir(r.layout.root)
	for _, e := range entries {
		if e.IsDir() && err == nil {
			err = durable.SyncDir(filepath.Join(r.layout.root, e.Name()))
		}
	}
	if err == nil {
		err = preparation{r.layout}.writeFormat()
	}
	if err != nil {
		return r.layout.fault(err)
	}
	return errors.Join(r.files.close(), remove(r.layout.restoring()), durable.SyncDir(r.layout.root), r.lock.Close())
}

// Abort removes what was created.
func (r *Restoration) Abort() error {
	return errors.Join(r.files.close(), r.clear(), remove(r.layout.restoring()), r.lock.Close())
}

// clear removes everything but the entries that may exist before a restore.
func (r *Restoration) clear() error {
	entries, err := os.ReadDir(r.layout.root)
	for _, e := range entries {
		if !mayExist[e.Name()] && err == nil {
			err = removeAll(filepath.Join(r.layout.root, e.Name()))
		}
	}
	return err
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
