package home

import (
	"archive/tar"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Snapshot is a copy of a tenant's database, to be written to a backup with the tenant's files. The
// tenant remains in use; it cannot be deleted until Close.
type Snapshot struct {
	homes *Homes
	paths paths
	dir   string
	db    string // the copy; "" if the tenant has no database yet
	used  time.Time
	close func() error
}

// Snapshot copies the database of a tenant as of one moment. It fails if the database is damaged.
func (t *Homes) Snapshot(ctx context.Context, id tenant.ID) (*Snapshot, error) {
	e, err := t.Find(id)
	if err != nil {
		return nil, err
	}
	if e.Suspension != nil && e.Suspension.Deleting {
		return nil, errNoTenant(id) // its data is not complete
	}
	p := t.layout.of(id)
	lock, err := p.lockShared(ctx, id)
	if err != nil {
		return nil, err
	}
	dir, remove, err := t.layout.transferDir()
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s := &Snapshot{homes: t, paths: p, dir: id.Dir(), used: e.Used, close: func() error { remove(); return lock.Close() }}
	if err := s.copyDatabase(ctx, filepath.Join(dir, databaseEntry)); err != nil {
		return nil, errors.Join(restorable(id, err), s.Close())
	}
	return s, nil
}

// backedUp are the files of a private directory that a backup has, besides logins. Locks, and answers
// kept for clients that resume a stream, are not among them.
var backedUp = []string{uidFile, tierFile, suspendedFile, databaseEntry}

// Close deletes the copy.
func (s *Snapshot) Close() error { return s.close() }

func (s *Snapshot) copyDatabase(ctx context.Context, to string) error {
	if err := s.paths.checkDatabase(); err != nil {
		return err
	}
	err := store.Snapshot(ctx, s.paths.db, to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	s.db = to
	_, err = checkCopy(ctx, to)
	return err
}

// checkCopy opens a database that no other process uses, which applies missing migrations, and checks it.
func checkCopy(ctx context.Context, path string) (p pending, err error) {
	db, err := openDatabase(ctx, path)
	if err != nil {
		return p, err
	}
	if err = db.Check(ctx); err == nil {
		p, err = pendingWork(ctx, db)
	}
	return p, errors.Join(err, db.Close())
}

// Write writes the entries of the tenant: the database and the files of its private directory, and
// the workspace as it is now. Their names are paths in a data directory. The time of the database is
// that of the last use.
func (s *Snapshot) Write(ctx context.Context, tw *tar.Writer) (workspace.Archived, error) {
	private := path.Join(privateDir, s.dir)
	for _, name := range backedUp {
		if name == databaseEntry {
			continue
		}
		if err := writeIfExists(tw, path.Join(private, name), filepath.Join(s.paths.private, name)); err != nil {
			return workspace.Archived{}, err
		}
	}
	if err := WriteDir(tw, path.Join(private, loginsDir), s.paths.logins); err != nil {
		return workspace.Archived{}, err
	}
	if s.db != "" {
		if err := writeFileEntry(tw, path.Join(private, databaseEntry), s.db, s.used); err != nil {
			return workspace.Archived{}, err
		}
	}
	if _, err := os.Lstat(s.paths.workspace); errors.Is(err, fs.ErrNotExist) {
		return workspace.Archived{}, nil
	}
	at := path.Join(rootWorkspaces, s.dir) + "/"
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: at, Mode: 0o700}); err != nil {
		return workspace.Archived{}, err
	}
	return s.homes.archiveWorkspace(ctx, tw, s.paths, at)
}

// WriteDir writes the files of a directory, without lock files, incomplete files and directories.
// A missing directory has none.
func WriteDir(tw *tar.Writer, name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return dirFault(err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() == "lock" || strings.HasSuffix(e.Name(), ".lock") || strings.HasPrefix(e.Name(), newPrefix) {
			continue
		}
		if err := writeIfExists(tw, path.Join(name, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// writeIfExists is writeFileEntry for a file that may be deleted at any time.
func writeIfExists(tw *tar.Writer, name, file string) error {
	err := writeFileEntry(tw, name, file, time.Time{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// errNotInBackup reports a tenant that a backup does not contain.
func errNotInBackup(id tenant.ID) error {
	return fault.New(fault.NotFound, "the backup has no data of tenant %q; nothing was changed", id)
}
