package backup

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// inBackup reports for each entry of a data directory, except those of tenants, whether a backup has
// it. Entries that are not listed are not part of a backup.
var inBackup = map[string]bool{
	"access.db":       true, // API keys, as hashes
	"audit":           true,
	"catalog":         true, // trusted definitions
	"logins":          true, // encrypted
	"documents":       true, // definitions of servers refer to them
	"due":             true, // names the tenants with background executions that wait
	packages.LockName: true,

	"key": false, "key.fingerprint": false, "key.lock": false, // the owner of a backup must not have the key
	"acme":   false, // private keys; certificates are obtained again
	"format": false, // written by a restore when it is complete
	"node":   false, // names this data directory in a bucket
	"models": false, // installed again
	// Made again, or of running processes.
	"projections": false, "derived": false, "spool": false, "run": false, "processes": false, "daemons": false, "failures": false,
	"uids.lock": false, "suspensions": false, "restoring": false, "store.lock": false,
}

// Backup is the result of a backup.
type Backup struct {
	Tenants int `json:"tenants"`
	workspace.Archived
	Missing []MissingTenant `json:"missing,omitempty"` // tenants that are not, or not completely, in the backup
}

// MissingTenant is a tenant that could not be backed up.
type MissingTenant struct {
	Tenant tenant.ID `json:"tenant"` // zero if its id is not known
	Error  string    `json:"error"`
}

// Write writes all data of the data directory to w, for a version of the program, while daemons use it.
// The master key and the keys of certificates are not part of it. Each database is written as of one moment.
func (k *Backups) Write(ctx context.Context, w io.Writer, version string) (b Backup, err error) {
	master, err := k.dir.key().ReadPinned()
	if err != nil {
		return b, err
	}
	key, err := secret.Derive(master, purpose)
	if err != nil {
		return b, err
	}
	out := newBackupWriter(w, key)
	tw := tar.NewWriter(out)
	if err := writeManifest(tw, newManifest(version, secret.Fingerprint(master))); err != nil {
		return b, err
	}
	all, err := k.homes.List(ctx)
	if err != nil {
		return b, err
	}
	for _, e := range all {
		if e.Error != "" {
			b.Missing = append(b.Missing, MissingTenant{e.ID, e.Error})
			continue
		}
		if err := k.writeTenant(ctx, tw, e.ID, &b); err != nil {
			return b, err
		}
	}
	if err := k.writeShared(ctx, tw); err != nil {
		return b, err
	}
	return b, errors.Join(tw.Close(), out.finish())
}

// writeTenant writes a tenant. One whose data cannot be used is recorded, and does not prevent the
// backup of others.
func (k *Backups) writeTenant(ctx context.Context, tw *tar.Writer, id tenant.ID, b *Backup) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := k.homes.Snapshot(ctx, id)
	switch {
	case fault.KindOf(err) == fault.NotFound: // it was deleted meanwhile
		return nil
	case ctx.Err() != nil || fault.KindOf(err) == fault.Exhausted:
		return err
	case err != nil:
		k.log.Error("a tenant is not part of the backup", "tenant", id.String(), "error", err)
		b.Missing = append(b.Missing, MissingTenant{id, fault.Message(err)})
		return nil
	}
	done, err := s.Write(ctx, tw)
	if err := errors.Join(tw.Flush(), ctx.Err(), s.Close()); err != nil { // not the fault of the tenant
		return fmt.Errorf("back up tenant %q: %w", id, err)
	}
	if err != nil {
		k.log.Error("a part of a tenant is not in the backup", "tenant", id.String(), "error", err)
		b.Missing = append(b.Missing, MissingTenant{id, fault.Message(err)})
		return nil
	}
	b.Tenants++
	b.Files, b.Bytes, b.Skipped, b.Changed = b.Files+done.Files, b.Bytes+done.Bytes, b.Skipped+done.Skipped, b.Changed+done.Changed
	return nil
}

// writeShared writes what all tenants share.
func (k *Backups) writeShared(ctx context.Context, tw *tar.Writer) error {
	for _, dir := range []string{"catalog", "logins", "documents"} {
		if err := home.WriteDir(tw, dir, k.dir.sub(dir)); err != nil {
			return err
		}
	}
	if err := writeFile(tw, packages.LockName, k.dir.sub(packages.LockName)); err != nil {
		return err
	}
	if err := k.writeKeys(ctx, tw); err != nil {
		return err
	}
	return k.writeAudit(tw)
}

// writeKeys writes the database of API keys.
func (k *Backups) writeKeys(ctx context.Context, tw *tar.Writer) error {
	dir, err := os.MkdirTemp(string(k.dir), ".new-backup-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	to := filepath.Join(dir, "access.db")
	if err := store.Snapshot(ctx, k.dir.sub("access.db"), to); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fault.Wrap(fault.KindOf(err), err, "the API keys in access.db: %s", fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return writeFile(tw, "access.db", to)
}

// writeAudit writes the audit log with a valid end.
func (k *Backups) writeAudit(tw *tar.Writer) error {
	if err := writeFile(tw, "audit/configuration", filepath.Join(k.dir.sub("audit"), "configuration")); err != nil {
		return err
	}
	cfg, err := daemon.AuditConfig(string(k.dir))
	if err != nil {
		return err
	}
	log, err := audit.Open(cfg)
	if err != nil {
		return err
	}
	defer log.Close()
	s, err := log.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	for _, f := range s.Files {
		if err := writeEntry(tw, "audit/"+f.Name, f.Content, f.Content.Size()); err != nil {
			return fault.Wrap(fault.Unavailable, err, "the audit log was repaired while it was read; try again")
		}
	}
	return nil
}

// writeFile writes an entry with the content of a file, if there is one.
func writeFile(tw *tar.Writer, name, path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	return writeEntry(tw, name, f, fi.Size())
}

func writeEntry(tw *tar.Writer, name string, content io.Reader, size int64) error {
	err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: size})
	if err == nil {
		_, err = io.CopyN(tw, content, size)
	}
	return err
}

// Contains reports whether a path is in the data directory, where no backup may be.
func (k *Backups) Contains(path string) (bool, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return false, fault.Wrap(fault.Invalid, err, "the directory of %s cannot be used: %v", path, err)
	}
	root, err := filepath.EvalSymlinks(string(k.dir))
	if err != nil {
		return false, err
	}
	rel, err := filepath.Rel(root, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)), nil
}
