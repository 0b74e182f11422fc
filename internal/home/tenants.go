package home

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Entry describes a tenant that has data.
type Entry struct {
	ID         tenant.ID   `json:"customer_uid"`
	Used       time.Time   `json:"used"`                 // when Acquire last opened it, to within refreshEvery
	Tier       string      `json:"tier,omitempty"`       // as stored
	Suspension *Suspension `json:"suspension,omitempty"` // nil if it is active
	Error      string      `json:"error,omitempty"`      // why its data cannot be used
}

// Suspension is the reason why a tenant cannot be used.
type Suspension struct {
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason,omitempty"`
	Deleting bool      `json:"deleting,omitempty"` // Delete has started
}

// List returns the tenants that have data, by id.
func (t Directory) List(ctx context.Context) ([]Entry, error) {
	var all []Entry
	err := t.Each(ctx, func(e Entry) error {
		all = append(all, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return all, nil
}

// Each calls f with each tenant that has data, in no order. One whose data is damaged has an Error.
func (t Directory) Each(ctx context.Context, f func(Entry) error) error {
	dirs, err := os.ReadDir(t.layout.private())
	if err != nil {
		return dirFault(err)
	}
	for _, d := range dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		var e Entry
		id, ok, err := t.layout.idOf(d.Name())
		switch {
		case ok:
			e, err = t.Find(id)
		case err != nil:
			err = dirFault(err)
		default:
			err = checkUnnamed(t.layout, d.Name())
		}
		if fault.KindOf(err) == fault.NotFound { // it was deleted in between
			continue
		}
		if err != nil {
			e.Error = fault.Message(err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// Find returns the entry of a tenant that has data.
func (t Directory) Find(id tenant.ID) (Entry, error) {
	p := t.layout.of(id)
	fi, err := os.Lstat(p.private)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, errNoTenant(id)
	}
	if err != nil {
		return Entry{}, dirFault(err)
	}
	e := Entry{ID: id, Used: fi.ModTime()}
	if fi, err := os.Lstat(p.useLock); err == nil {
		e.Used = fi.ModTime()
	}
	if e.Tier, err = p.readTier(); err != nil {
		return e, err
	}
	e.Suspension, err = p.suspension()
	return e, err
}

func errNoTenant(id tenant.ID) error { return fault.New(fault.NotFound, "tenant %q has no data", id) }

// idOf returns the tenant of a directory in private/. A directory that another process is
// creating or deleting has none. It fails if that could not be read.
func (l layout) idOf(dir string) (id tenant.ID, ok bool, err error) {
	uid := dir
	b, err := os.ReadFile(filepath.Join(l.private(), dir, uidFile))
	if fault.Inconclusive(err) {
		return id, false, err
	}
	if err == nil {
		uid = string(b)
	}
	id, err = tenant.ParseStored(uid)
	return id, err == nil && id.Dir() == dir, nil
}

// checkUnnamed returns the error of a directory in private/ for which idOf finds no tenant. It is
// NotFound unless the directory has the database of one.
func checkUnnamed(l layout, dir string) error {
	if _, err := os.Lstat(filepath.Join(l.private(), dir, databaseEntry)); err != nil {
		return fault.Wrap(fault.NotFound, err, "the directory private/%s has no database", dir)
	}
	return fault.New(fault.Internal, "the directory private/%s has the data of a tenant, but its file %s is missing or damaged", dir,
		uidFile)
}

// uidFile contains the tenant's id, if it differs from the name of the directory.
const uidFile = "uid"

// writeUID creates the file with the tenant's id.
func (p paths) writeUID(id tenant.ID) error {
	if id.Dir() == id.String() {
		return nil
	}
	path := filepath.Join(p.private, uidFile)
	have, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return dirFault(durable.WriteFile(path, []byte(id.String())))
	}
	if err == nil && !bytes.Equal(have, []byte(id.String())) {
		return fault.New(fault.Internal, "the tenant's directory belongs to another tenant").
			WithHint("restore the file uid in its directory in private/ from a backup")
	}
	return dirFault(err)
}

// Create creates the home of a tenant that has none.
func (t *Homes) Create(ctx context.Context, id tenant.ID) error {
	has, err := t.Exists(id)
	if err != nil {
		return err
	}
	if has {
		return fault.New(fault.Invalid, "tenant %q exists already", id)
	}
	h, err := t.Acquire(ctx, id)
	if err != nil {
		return err
	}
	return h.Release(ctx)
}

// Suspend makes Acquire refuse the tenant, here and in all other processes. Those that Watch end
// its executions within a second. A reason may be empty.
func (t *Homes) Suspend(id tenant.ID, reason string) error {
	return t.suspend(id, Suspension{Since: time.Now().UTC().Truncate(time.Second), Reason: reason})
}

func (t *Homes) suspend(id tenant.ID, s Suspension) error {
	e, err := t.Find(id)
	if err != nil {
		return err
	}
	if old := e.Suspension; old != nil && !s.Deleting {
		if old.Deleting {
			return errDeleting(id)
		}
		s.Since = old.Since
	}
	b, err := json.Marshal(s)
	if err == nil {
		err = durable.WriteFile(t.layout.of(id).suspended, append(b, '\n'))
	}
	if err == nil {
		err = t.layout.announce()
	}
	if err != nil {
		return dirFault(err)
	}
	t.retireSuspended()
	return nil
}

// Activate ends the suspension of a tenant. It is no error if there is none.
func (t Directory) Activate(id tenant.ID) error {
	e, err := t.Find(id)
	switch {
	case err != nil:
		return err
	case e.Suspension == nil:
		return nil
	case e.Suspension.Deleting:
		return errDeleting(id)
	}
	p := t.layout.of(id)
	if err := os.Remove(p.suspended); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return dirFault(err)
	}
	return dirFault(durable.SyncDir(p.private))
}

func errDeleting(id tenant.ID) error {
	return fault.New(fault.Unavailable, "tenant %q is being deleted", id).
		WithHint("if that was interrupted, delete it again")
}

// suspension returns the suspension of the tenant, or nil. A damaged file suspends it too.
func (p paths) suspension() (*Suspension, error) {
	b, err := os.ReadFile(p.suspended)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, readFault(suspendedFile, err)
	}
	s := new(Suspension)
	if json.Unmarshal(b, s) != nil {
		s.Reason = "the file suspended is damaged"
	}
	return s, nil
}

// checkActive returns an error if the tenant is suspended. The message is for the tenant: it
// does not contain the reason.
func (p paths) checkActive(id tenant.ID) error {
	s, err := p.suspension()
	switch {
	case err != nil:
		return err
	case s == nil:
		return nil
	case s.Deleting:
		return errDeleting(id)
	}
	return fault.New(fault.Denied, "tenant %q is suspended", id).
		WithHint("ask the operator of this server: `sandpiper tenant activate %s` lifts it", id)
}

// lockUse creates the private directory and locks the tenant for use. It fails while the tenant is
// being deleted.
func (p paths) lockUse(id tenant.ID) (*flock.Flock, error) {
	if err := mkdir(p.private, 0o700); err != nil {
		return nil, dirFault(err)
	}
	lock := flock.New(p.useLock, flock.SetPermissions(0o600))
	ok, err := lock.TryRLock()
	if err == nil && ok {
		// Delete may have removed the file between its opening and the lock.
		have, err1 := lock.Stat()
		want, err2 := os.Stat(p.useLock)
		if err1 == nil && err2 == nil && os.SameFile(have, want) {
			return lock, nil
		}
		_ = lock.Close()
	}
	if err != nil {
		return nil, dirFault(err)
	}
	return nil, fault.New(fault.Unavailable, "tenant %q is being deleted or exported", id).
		WithHint("if a deletion was interrupted, delete it again")
}

// deleteWait is how long Delete waits for the end of all uses of the tenant.
const deleteWait = 30 * time.Second

// Delete deletes all data of a tenant, after making it unreadable by shredding the keys of its
// vault. It suspends the tenant first and waits for the processes that use it. A deletion that
// was interrupted continues when Delete is called again.
func (t *Homes) Delete(ctx context.Context, id tenant.ID) error {
	if err := t.suspend(id, Suspension{Since: time.Now().UTC().Truncate(time.Second), Reason: "deleted", Deleting: true}); err != nil {
		return err
	}
	p := t.layout.of(id)
	lock, err := p.lockExclusively(ctx, id, "delete")
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := t.shred(ctx, id, p); err != nil {
		t.cfg.Log.Warn("shred the keys of a deleted tenant", "tenant", id.String(), "error", err)
	}
	if err := errors.Join(emptyModules(t.layout.projections(rootServers), id), t.layout.remove(p)); err != nil { // for the operator
		return fmt.Errorf("delete the data of tenant %q: %w", id, err)
	}
	err = t.Marks(Executions).Set(id, time.Time{})
	for _, f := range t.cfg.Features {
		err = errors.Join(err, t.Marks(f.Name).Set(id, time.Time{}))
	}
	return err
}

// shred overwrites the keys of the tenant's vault. It fails for a damaged database.
func (t opener) shred(ctx context.Context, id tenant.ID, p paths) (err error) {
	if _, err := os.Lstat(p.db); err != nil || t.cfg.Vault == nil {
		return nil
	}
	db, err := openDatabase(ctx, t.layout, p.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return t.cfg.Vault(id, db).Shred(ctx)
}

// remove removes all directories, the private one last: its suspension prevents a new home
// until then. The caller holds the use lock exclusively.
func (l layout) remove(p paths) error {
	for _, dir := range []string{p.skillProjection, p.sessionProjection, p.workspace} {
		if err := removeAll(dir); err != nil {
			return err
		}
	}
	gone, err := os.MkdirTemp(l.root, deletedPrefix+"*")
	if err != nil {
		return err
	}
	if err := os.Rename(p.private, filepath.Join(gone, "private")); err != nil {
		return errors.Join(err, os.Remove(gone))
	}
	if err := durable.SyncDir(filepath.Dir(p.private)); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

// deletedPrefix starts the names of directories with data of deleted tenants.
const deletedPrefix = newPrefix + "deleted-"

// removeDeleted removes what interrupted calls of remove left.
func (l preparation) removeDeleted() {
	entries, _ := os.ReadDir(l.root)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), deletedPrefix) {
			_ = os.RemoveAll(filepath.Join(l.root, e.Name())) // if that fails, the next process tries again
		}
	}
}

// removeAll removes a directory tree in which directories may lack permissions of their owner.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // #nosec: it is about to be removed
		}
		return nil
	})
	return os.RemoveAll(dir)
}
