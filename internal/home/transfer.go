package home

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// An export is a tar archive with these entries in this order. Its database is encrypted with
// keys derived from the key in the manifest, so the archive must be encrypted as a whole.
const (
	manifestEntry = "manifest.json"
	databaseEntry = "tenant.db"
	filesPrefix   = "files/"
	endEntry      = "end.json" // what the archive contains; it detects a truncated one
)

// exportFormat is the version of the archive. It changes when an older Sandpiper would misread it.
const exportFormat = 1

// manifest describes an export.
type manifest struct {
	Format  int       `json:"format"`
	Tenant  tenant.ID `json:"tenant"`
	Created time.Time `json:"created"`
	Key     []byte    `json:"key"` // encrypts the database
}

// Transferred counts the content of an export or import.
type Transferred struct {
	Tenant             tenant.ID `json:"tenant"`
	workspace.Archived           // of the workspace
	Damaged            int       `json:"damaged"` // encrypted records that cannot be read, here and in the copy
}

// encrypted are the stores of a tenant whose content is encrypted with keys of a data directory.
// Each one must be listed here, or an export cannot be read elsewhere.
type encrypted struct {
	bodies    sealed.Store
	sessions  *session.Log
	journal   *journal.Log
	vault     *vault.Vault    // nil if there is none
	approvals *approval.Store // nil if there are none
}

// ownStores returns the stores with the keys of this data directory.
func (t opener) ownStores(id tenant.ID, db *store.DB) (s encrypted, err error) {
	key, err := t.deriveKey("sessions", id, "the session logs")
	if err != nil {
		return s, err
	}
	if s.sessions, err = session.New(session.Config{DB: db, Customer: id.String(), Key: key}); err != nil {
		return s, err
	}
	if s.bodies, err = t.bodies(id, db); err != nil {
		return s, err
	}
	if t.cfg.Process != nil {
		s.journal = journal.New(journal.Config{DB: db, Tenant: id, Process: t.cfg.Process})
	}
	if t.cfg.Vault != nil {
		s.vault = t.cfg.Vault(id, db)
	}
	if t.cfg.Approvals != nil {
		s.approvals, err = t.cfg.Approvals(id, db)
	}
	return s, err
}

// exportStores returns the stores with keys derived from the key of an export.
func exportStores(id tenant.ID, db *store.DB, key []byte) (s encrypted, err error) {
	derive := func(of string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte("sandpiper export\x00" + of))
		return h.Sum(nil)
	}
	if s.sessions, err = session.New(session.Config{DB: db, Customer: id.String(), Key: derive("sessions")}); err != nil {
		return s, err
	}
	s.bodies.DB = db
	if s.bodies.Cipher, err = sealed.New(derive("sealed"), id.String()); err != nil {
		return s, err
	}
	s.journal = journal.New(journal.Config{DB: db, Tenant: id,
		Process: journal.NewProcess("", func() ([]byte, error) { return derive("journal"), nil })})
	s.vault = vault.New(vault.Config{DB: db, Tenant: id, Master: vault.NewKeyMaster(derive("vault"))})
	s.approvals, err = approval.New(approval.Config{DB: db, Tenant: id, Key: derive("approvals")})
	return s, err
}

// rekey encrypts everything with the keys of to. It returns the number of damaged records.
func (s encrypted) rekey(ctx context.Context, to encrypted) (damaged int, err error) {
	add := func(n int, failed error) { damaged, err = damaged+n, errors.Join(err, failed) }
	add(s.rekeyBodies(ctx, to.bodies.Cipher))
	add(s.sessions.Rekey(ctx, to.sessions))
	if s.journal != nil && to.journal != nil {
		add(s.journal.Rekey(ctx, to.journal))
	}
	if s.vault != nil && to.vault != nil {
		add(s.vault.Rekey(ctx, to.vault))
	}
	if s.approvals != nil && to.approvals != nil {
		add(s.approvals.Rekey(ctx, to.approvals))
	}
	return damaged, err
}

// rekeyBodies encrypts what package sealed stores.
func (s encrypted) rekeyBodies(ctx context.Context, to sealed.Cipher) (damaged int, err error) {
	err = s.bodies.DB.Update(ctx, func(tx *store.Tx) error {
		damaged, err = s.bodies.Cipher.Rekey(ctx, tx, to, sealed.Bodies)
		return err
	})
	return damaged, err
}

// transferPrefix starts the names of directories in which an export or import is prepared. Each
// has a file that is locked while it is used.
const transferPrefix = newPrefix + "transfer-"

// transferDir creates such a directory. remove deletes it.
func (l layout) transferDir() (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp(l.root, transferPrefix+"*"); err != nil {
		return "", nil, l.fault(err)
	}
	lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	if ok, err := lock.TryLock(); !ok {
		return "", nil, errors.Join(l.fault(err), removeAll(dir))
	}
	return dir, func() {
		_ = removeAll(dir) // if that fails, the next process tries again
		_ = lock.Close()
	}, nil
}

// removeTransfers removes what killed exports and imports left.
func (l preparation) removeTransfers() {
	entries, _ := os.ReadDir(l.root)
	for _, e := range entries {
		dir := filepath.Join(l.root, e.Name())
		if fi, err := e.Info(); !strings.HasPrefix(e.Name(), transferPrefix) || err != nil || time.Since(fi.ModTime()) < stale {
			continue // a new one may not be locked yet
		}
		lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
		if ok, err := lock.TryLock(); ok && err == nil {
			_ = removeAll(dir)
		}
		_ = lock.Close()
	}
}

// lockShared locks a tenant for a reader that does not count as a use of it. It waits while the tenant
// is exported.
func (p paths) lockShared(ctx context.Context, id tenant.ID) (*flock.Flock, error) {
	lock := flock.New(p.useLock, flock.SetPermissions(0o600))
	wait, cancel := context.WithTimeout(ctx, deleteWait)
	defer cancel()
	if ok, err := lock.TryRLockContext(wait, 20*time.Millisecond); !ok {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil, fault.New(fault.Unavailable, "tenant %q is being deleted, exported or restored", id)
		}
		if errors.Is(err, fs.ErrNotExist) { // it was deleted in between
			return nil, errNoTenant(id)
		}
		return nil, dirFault(err)
	}
	return lock, nil
}

// lockExclusively locks a suspended tenant once no process uses it.
func (p paths) lockExclusively(ctx context.Context, id tenant.ID, then string) (*flock.Flock, error) {
	lock := flock.New(p.useLock, flock.SetPermissions(0o600))
	wait, cancel := context.WithTimeout(ctx, deleteWait)
	defer cancel()
	if ok, err := lock.TryLockContext(wait, 20*time.Millisecond); !ok {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil, fault.New(fault.Unavailable, "tenant %q is suspended, but still in use after %s", id, deleteWait).
				WithHint("stop the daemon or command that uses it, and %s it again", then)
		}
		return nil, dirFault(err)
	}
	return lock, nil
}
