package home

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Export writes all data of a suspended tenant to w, for Import. The archive contains the key that
// encrypts its database: the caller encrypts it. No process can use the tenant until it returns. Memory
// is bounded; the disk needs space for a copy of the database.
func (t *Homes) Export(ctx context.Context, id tenant.ID, w io.Writer) (Transferred, error) {
	done := Transferred{Tenant: id}
	e, err := t.Find(id)
	switch {
	case err != nil:
		return done, err
	case e.Suspension == nil:
		return done, fault.New(fault.Invalid, "tenant %q is active: an export has to contain one state of its data", id).
			WithHint("suspend it first: `sandpiper tenant suspend %s`", id)
	case e.Suspension.Deleting:
		return done, errDeleting(id)
	}
	p := t.layout.of(id)
	lock, err := p.lockExclusively(ctx, id, "export")
	if err != nil {
		return done, err
	}
	defer lock.Close()
	dir, remove, err := t.layout.transferDir()
	if err != nil {
		return done, err
	}
	defer remove()
	m := manifest{Format: exportFormat, Tenant: id, Created: time.Now().UTC().Truncate(time.Second), Key: make([]byte, 32)}
	_, _ = rand.Read(m.Key) // never fails
	db := filepath.Join(dir, databaseEntry)
	if done.Damaged, err = t.copyDatabase(ctx, id, p, db, m.Key); err != nil {
		return done, err
	}
	files, err := p.openWorkspace()
	if err != nil {
		return done, err
	}
	defer files.Close()
	tw := tar.NewWriter(w)
	if err := errors.Join(writeJSONEntry(tw, manifestEntry, m), writeFileEntry(tw, databaseEntry, db, time.Time{})); err != nil {
		return done, err
	}
	if done.Archived, err = files.Archive(ctx, tw, filesPrefix, mountPoints...); err != nil {
		return done, err
	}
	return done, errors.Join(writeJSONEntry(tw, endEntry, done.Archived), tw.Close())
}

// copyDatabase copies the database to path, encrypted with the key of an export. The caller has
// locked the tenant.
func (t opener) copyDatabase(ctx context.Context, id tenant.ID, p paths, path string, key []byte) (damaged int, err error) {
	if err := p.checkDatabase(); err != nil {
		return 0, err
	}
	if err := foldLogs(ctx, t, id, p.db); err != nil {
		return 0, err
	}
	db, err := openDatabase(ctx, t.layout, p.db)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(db.Check(ctx), db.Close()); err != nil { // moves its log into it
		return 0, err
	}
	if fi, err := os.Stat(p.db + "-wal"); err == nil && fi.Size() > 0 {
		return 0, fault.New(fault.Unavailable, "the database of tenant %q is in use by another program; try again", id)
	}
	if err := copyFile(p.db, path); err != nil {
		return 0, t.layout.fault(err)
	}
	if db, err = openDatabase(ctx, t.layout, path); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	from, err := t.ownStores(id, db)
	if err != nil {
		return 0, err
	}
	to, err := exportStores(id, db, key)
	if err != nil {
		return 0, err
	}
	if damaged, err = from.rekey(ctx, to); err == nil {
		err = db.Compact(ctx)
	}
	return damaged, err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// mountPoints are the entries of a workspace that an archive omits.
var mountPoints = []string{skillsMount, sessionsMount, serversMount}

// openWorkspace opens a workspace without its mounts, which exist only after the home was opened.
func (p paths) openWorkspace() (*workspace.Files, error) {
	return workspace.Open(workspace.Config{Dir: p.workspace})
}

func writeJSONEntry(tw *tar.Writer, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeEntry(tw, name, b)
}

func writeEntry(tw *tar.Writer, name string, b []byte) error {
	err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(b))})
	if err == nil {
		_, err = tw.Write(b)
	}
	return err
}

func writeFileEntry(tw *tar.Writer, name, path string, modified time.Time) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: fi.Size(), ModTime: modified}); err != nil {
		return err
	}
	_, err = io.CopyN(tw, f, fi.Size())
	return err
}
