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

// settle returns the uid that owns the workspace, and makes the workspace if
// there is none. The owner on disk is the only record of who has which uid.
func (t *Homes) settle(ctx context.Context, p places) (int, error) {
	if uid, err := t.settled(p.workspace); err == nil || !errors.Is(err, errUnsettled) {
		return uid, err
	}
	lock := flock.New(t.layout.uidLock(), flock.SetPermissions(0o600))
	if ok, err := lock.TryLockContext(ctx, 5*time.Millisecond); !ok {
		return 0, dirFault(err)
	}
	defer lock.Unlock()
	uid, err := t.settled(p.workspace) // by another process, meanwhile
	if err == nil || !errors.Is(err, errUnsettled) {
		return uid, err
	}
	if uid, err = t.free(); err != nil {
		return 0, err
	}
	if _, err := os.Lstat(p.workspace); err == nil {
		return uid, handOver(ctx, p.workspace, uid)
	}
	return uid, dirFault(makeWorkspace(p.workspace, uid))
}

// errUnsettled says that a workspace does not exist, or has no owner of its own.
var errUnsettled = errors.New("workspace without an owner")

// settled returns the owner of a workspace.
func (t *Homes) settled(path string) (int, error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, errUnsettled
	}
	if err != nil {
		return 0, dirFault(err)
	}
	if !fi.IsDir() {
		return 0, fault.New(fault.Internal, "the tenant's workspace is damaged: it is no directory")
	}
	uid := ownerOf(fi)
	switch {
	case uid == selfUID() && t.separate():
		return 0, errUnsettled
	case uid == selfUID(), selfUID() == 0:
		return uid, nil
	}
	return 0, fault.New(fault.Denied, "the tenant's workspace belongs to another user").
		WithHint("the data directory was used by root: run Sandpiper as root again, or give the files to its user with chown -R")
}

// separate reports whether tenants get uids of their own.
func (t *Homes) separate() bool {
	return selfUID() == 0 && t.cfg.UIDs > 0 && mapped(t.cfg.FirstUID, t.cfg.FirstUID+t.cfg.UIDs-1)
}

// free returns a uid that owns no workspace; without uids to give, the daemon's.
func (t *Homes) free() (int, error) {
	if !t.separate() {
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
	return 0, fault.New(fault.Exhausted, "all %d host uids are given to tenants", t.cfg.UIDs).
		WithHint("delete tenants that are not needed, or spread them over several data directories and users")
}

// makeWorkspace gives the directory its name when it has its owner.
func makeWorkspace(path string, uid int) error {
	parent, name := filepath.Split(path)
	made := filepath.Join(parent, newPrefix+name)
	if err := os.Mkdir(made, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err // what exists was left by somebody who died; we hold the lock
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

// handOver gives a workspace that root filled, by restoring a backup say, to
// its tenant. Its directory comes last, so that one half done is done again.
func handOver(ctx context.Context, path string, uid int) error {
	f, err := workspace.Open(workspace.Config{Dir: path})
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Own(ctx, uid)
}
