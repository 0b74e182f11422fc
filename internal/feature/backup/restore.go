package backup

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Restored is the result of a restore.
type Restored struct {
	Tenants int       `json:"tenants"`
	Created time.Time `json:"created"` // time of the backup
	workspace.Archived
}

// Restore creates the data directory dir from a backup. The directory must be empty except for the
// master key; keyFile is a file with the key that is to be copied there, "" if it is there.
func Restore(ctx context.Context, dir string, features []home.Feature, file File, keyFile string) (done Restored, err error) {
	b, err := openBackup(file)
	if err != nil {
		return done, err
	}
	defer b.close()
	done.Created = b.Created
	at := dataDir(dir)
	key, err := at.keyOf(b, keyFile)
	if err != nil {
		return done, err
	}
	mac, err := secret.Derive(key, purpose)
	if err != nil {
		return done, err
	}
	if err := b.verify(ctx, mac); err != nil {
		return done, err
	}
	r, err := home.StartRestore(dir, features)
	if err != nil {
		return done, err
	}
	undo := func() error { return nil }
	if err = b.entries(ctx, func(h *tar.Header, content io.Reader) error { return addEntry(r, h, content) }); err == nil {
		undo, err = at.placeKey(key)
	}
	if err == nil {
		err = r.Commit(ctx)
	}
	if err != nil {
		return done, errors.Join(err, undo(), r.Abort())
	}
	done.Tenants, done.Archived = r.Tenants()
	return done, nil
}

func addEntry(r *home.Restoration, h *tar.Header, content io.Reader) error {
	name, _, _ := strings.Cut(h.Name, "/")
	if in, listed := inBackup[name]; listed && !in || !fs.ValidPath(strings.TrimSuffix(h.Name, "/")) {
		return fmt.Errorf("the name %.80q is not allowed in a backup", h.Name)
	}
	return r.Add(h, content)
}

// keyOf returns the master key of a backup, from keyFile or the data directory.
func (d dataDir) keyOf(b *openFile, keyFile string) ([]byte, error) {
	if keyFile != "" {
		return secret.KeyFile(keyFile).ReadMatching(b.Key)
	}
	if _, err := os.Lstat(string(d.key())); errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Unavailable, "the backup needs the master key with fingerprint %.16s, "+
			"which no backup contains; nothing was changed", b.Key).
			WithHint("copy it to %s, or give its file with --key", d.key())
	}
	return d.key().ReadMatching(b.Key)
}

// placeKey writes the master key, unless it is there. undo removes what it wrote.
func (d dataDir) placeKey(key []byte) (undo func() error, err error) {
	_, err = d.key().ReadMatching(secret.Fingerprint(key))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, err
	}
	return func() error {
		if err := os.Remove(string(d.key())); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}, durable.WriteFile(string(d.key()), key)
}

// RestoreTenant creates one tenant from a backup of this data directory. With replace, the data of a
// suspended tenant is replaced.
func (k *Backups) RestoreTenant(ctx context.Context, file File, id tenant.ID, replace bool) (done Restored, err error) {
	b, err := openBackup(file)
	if err != nil {
		return done, err
	}
	defer b.close()
	done.Tenants, done.Created = 1, b.Created
	key, err := k.dir.key().ReadMatching(b.Key)
	if err != nil {
		return done, err
	}
	mac, err := secret.Derive(key, purpose)
	if err != nil {
		return done, err
	}
	if err := b.verify(ctx, mac); err != nil {
		return done, err
	}
	done.Archived, err = k.homes.Restore(ctx, id, replace, func(add func(*tar.Header, io.Reader) error) error {
		return b.entries(ctx,
			add)
	})
	return done, err
}
