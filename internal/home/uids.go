package home

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// assignUID returns the uid that owns the workspace, and creates a missing workspace with a free
// uid. The owner on disk is the only record of the assignment.
func (t opener) assignUID(ctx context.Context, p paths) (int, error) {
	if uid, err := t.ownerUID(p.workspace); err == nil || !errors.Is(err, errNoOwner) {
		return uid, err
	}
	lock := flock.New(t.layout.uidLock(), flock.SetPermissions(0o600))
	if ok, err := lock.TryLockContext(ctx, 5*time.Millisecond); !ok {
		return 0, dirFault(err)
	}
	defer lock.Unlock()
	uid, err := t.ownerUID(p.workspace) // another process may have assigned it
	if err == nil || !errors.Is(err, errNoOwner) {
		return uid, err
	}
	if uid, err = t.free(); err != nil {
		return 0, err
	}
	if _, err := os.Lstat(p.workspace); err == nil {
		return uid, chownWorkspace(ctx, p.workspace, uid)
	}
	return uid, dirFault(makeWorkspace(p.workspace, uid))
}

// errNoOwner is returned for a workspace that does not exist or has no uid of its own.
var errNoOwner = errors.New("workspace without an owner")

// ownerUID returns the owner of a workspace.
func (t opener) ownerUID(path string) (int, error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, errNoOwner
	}
	if err != nil {
		return 0, dirFault(err)
	}
	if !fi.IsDir() {
		return 0, fault.New(fault.Internal, "the tenant's workspace is not a directory")
	}
	uid := ownerOf(fi)
	switch {
	case uid == selfUID() && t.cfg.UIDs > 0:
		return 0, errNoOwner
	case uid == selfUID(), selfUID() == 0:
		return uid, nil
	}
	return 0, fault.New(fault.Denied, "the tenant's workspace belongs to another user").
		WithHint("the data directory was used by root or with sandbox.subordinate_uids: use it in the same way again, or let root change " +
			"the owner of its files with chown -R")
}

// free returns a uid that owns no workspace, or the daemon's if tenants share it.
func (t opener) free() (int, error) {
	if t.cfg.UIDs <= 0 {
		return selfUID(), nil
	}
	entries, err := os.ReadDir(t.layout.workspaces())
	if err != nil {
		return 0, dirFault(err)
	}
	taken := make(map[int]bool)
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			taken[ownerOf(fi)] = true
		}
	}
	for uid := t.cfg.FirstUID; uid < t.cfg.FirstUID+t.cfg.UIDs; uid++ {
		if !taken[uid] {
			return uid, nil
		}
	}
	return 0, fault.New(fault.Exhausted, "all %d host uids are assigned to tenants", t.cfg.UIDs).
		WithHint("delete unused tenants, or distribute them over several data directories")
}

// makeWorkspace creates the directory under its name only once it has its owner.
func makeWorkspace(path string, uid int) error {
	parent, name := filepath.Split(path)
	made := filepath.Join(parent, newPrefix+name)
	if err := os.Mkdir(made, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err // left by a killed process; we hold the lock
	}
	if uid != selfUID() {
		if err := os.Chown(made, uid, uid); err != nil {
			return err
		}
	}
	if err := os.Chmod(made, 0o700); err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return err
	}
	return durable.SyncDir(parent)
}

// chownWorkspace changes the owner of a workspace that root created, for example from a backup.
// Its directory comes last, so that an interrupted change is repeated.
func chownWorkspace(ctx context.Context, path string, uid int) error {
	f, err := workspace.Open(workspace.Config{Dir: path})
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chown(ctx, uid)
}
