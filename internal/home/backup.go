package home

import (
	"archive/tar"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Snapshot is a copy of a tenant's database, to be written to a backup with the tenant's files. The
// tenant remains in use; it cannot be deleted until Close.
type Snapshot struct {
	dir     string
	private []privateFile
	db      string // the copy; "" if the tenant has no database yet
	used    time.Time
	files   *workspace.Files // nil if the tenant has no workspace yet
	close   func() error
}

// privateFile is a small file of a private directory.
type privateFile struct {
	name    string // relative to the directory
	content []byte
}

// Snapshot copies the database of a tenant as of one moment, reads its other private files, and opens
// its workspace. It fails if one of them is damaged.
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
	s := &Snapshot{dir: id.Dir(), used: e.Used, close: func() error { remove(); return lock.Close() }}
	err = s.copyDatabase(ctx, t.opener, id, filepath.Join(dir, databaseEntry))
	if err == nil {
		s.private, err = p.readPrivate()
	}
	if err == nil {
		s.files, err = p.openWorkspace()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, errors.Join(restorable(id, err), s.Close())
	}
	return s, nil
}

// backedUp are the files of a private directory that a backup has, besides logins. Locks, and answers
// kept for clients that resume a stream, are not among them.
var backedUp = []string{uidFile, tierFile, suspendedFile, databaseEntry}

// readPrivate reads what a backup has of a private directory, except the database.
func (p paths) readPrivate() (all []privateFile, err error) {
	names := slices.DeleteFunc(slices.Clone(backedUp), func(name string) bool { return name == databaseEntry })
	logins, err := filesIn(p.logins)
	if err != nil {
		return nil, readFault(loginsDir, err)
	}
	for _, name := range logins {
		names = append(names, path.Join(loginsDir, name))
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(p.private, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, readFault(name, err)
		}
		all = append(all, privateFile{name, b})
	}
	return all, nil
}

// readFault is the error of a private file of a tenant that cannot be read.
func readFault(name string, err error) error {
	return fault.Wrap(fault.Unavailable, err, "the file %s of the tenant cannot be read", name)
}

// Close deletes the copy.
func (s *Snapshot) Close() error {
	if s.files == nil {
		return s.close()
	}
	return errors.Join(s.files.Close(), s.close())
}

// copyDatabase copies the logs next to the database first: a frame that is no longer there is in the
// database.
func (s *Snapshot) copyDatabase(ctx context.Context, t opener, id tenant.ID, to string) error {
	p := t.layout.of(id)
	if err := p.checkDatabase(); err != nil {
		return err
	}
	err := errors.Join(journal.CopyLogs(p.db, to), session.CopyLogs(p.db, to))
	if err == nil {
		err = store.Snapshot(ctx, p.db, to)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = foldLogs(ctx, t, id, to)
	}
	if err != nil {
		return err
	}
	s.db = to
	_, err = checkCopy(ctx, t.layout, to)
	return err
}

// foldLogs stores the logs next to the database of a tenant, or next to a copy of it, in that database.
func foldLogs(ctx context.Context, t opener, id tenant.ID, path string) error {
	db, err := openDatabase(ctx, t.layout, path)
	if err != nil {
		return err
	}
	sessions, err := t.sessions(&parts{id: id, db: db}, t.layout.of(id))
	if err == nil {
		err = sessions.Close()
	}
	return errors.Join(err, journal.New(journal.Config{DB: db}).Close(), db.Close())
}

// checkCopy opens a database that no other process uses, which applies missing migrations, and checks it.
func checkCopy(ctx context.Context, l layout, path string) (p pending, err error) {
	db, err := openDatabase(ctx, l, path)
	if err != nil {
		return p, err
	}
	if err = db.Check(ctx); err == nil {
		p, err = l.pendingWork(ctx, db)
	}
	return p, errors.Join(err, db.Close())
}

// Write writes the entries of the tenant: the database and the files of its private directory, and
// the workspace as it is now. Their names are paths in a data directory. The time of the database is
// that of the last use.
func (s *Snapshot) Write(ctx context.Context, tw *tar.Writer) (workspace.Archived, error) {
	private := path.Join(privateDir, s.dir)
	for _, f := range s.private {
		if err := writeEntry(tw, path.Join(private, f.name), f.content); err != nil {
			return workspace.Archived{}, err
		}
	}
	if s.db != "" {
		if err := writeFileEntry(tw, path.Join(private, databaseEntry), s.db, s.used); err != nil {
			return workspace.Archived{}, err
		}
	}
	if s.files == nil {
		return workspace.Archived{}, nil
	}
	at := path.Join(rootWorkspaces, s.dir) + "/"
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: at, Mode: 0o700}); err != nil {
		return workspace.Archived{}, err
	}
	return s.files.Archive(ctx, tw, at, mountPoints...)
}

// WriteDir writes the files of a directory, without lock files, incomplete files and directories.
// A missing directory has none.
func WriteDir(tw *tar.Writer, name, dir string) error {
	names, err := filesIn(dir)
	if err != nil {
		return dirFault(err)
	}
	for _, file := range names {
		if err := writeIfExists(tw, path.Join(name, file), filepath.Join(dir, file)); err != nil {
			return err
		}
	}
	return nil
}

// filesIn returns the names of the files that WriteDir writes.
func filesIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if e.Type().IsRegular() && e.Name() != "lock" && !strings.HasSuffix(e.Name(), ".lock") && !strings.HasPrefix(e.Name(), newPrefix) {
			names = append(names, e.Name())
		}
	}
	return names, err
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
