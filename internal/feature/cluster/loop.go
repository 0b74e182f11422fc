package cluster

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

const (
	// lockFile is locked by the process that writes the entries of a data directory.
	lockFile = "store.lock"
	// copiedFile of a tenant's private directory has the version of the tenant that is in the bucket.
	copiedFile = "copied"
	// closeWait bounds the last pass of a process that ends.
	closeWait = 20 * time.Second
	// deletedEvery is the time between two searches for tenants that were deleted.
	deletedEvery = time.Minute
	// sharedEvery is the time between two passes over what all tenants share.
	sharedEvery = 10 * time.Second
	// filesEvery is the time between two passes over the files of a tenant whose database has not changed, for an hour after
	// its last change.
	filesEvery = 30 * time.Second
)

// loop writes what has changed to the bucket.
type loop struct {
	store *bucketStore
	core  daemon.Core
	lock  *flock.Flock
	node  string // "" until the bucket was read
	// failed is the message of the last error in reading it.
	failed string

	cancel context.CancelFunc
	done   sync.WaitGroup

	tenants map[tenant.ID]*copied
	control *shipper  // of what all tenants share
	shared  time.Time // when it was read
	deleted time.Time // when deletedEvery began
}

// copied is a tenant with its state in the bucket.
type copied struct {
	shipper *shipper
	version string    // that is in the bucket
	changed time.Time // when another version was seen
	files   time.Time // when the files were read
	retry   time.Time // not before
	failed  string    // the message of the last error
	wait    time.Duration
}

func newLoop(s *bucketStore, core daemon.Core) *loop {
	ctx, cancel := context.WithCancel(context.Background())
	l := &loop{store: s, core: core, lock: flock.New(filepath.Join(s.dir, lockFile), flock.SetPermissions(0o600)), cancel: cancel,
		tenants: map[tenant.ID]*copied{}}
	l.done.Go(func() { l.run(ctx) })
	return l
}

// close writes what has changed, and ends.
func (l *loop) close() error {
	l.cancel()
	l.done.Wait()
	l.shared, l.deleted = time.Time{}, time.Time{}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	l.pass(ctx)
	return errors.Join(l.lock.Close(), l.store.close())
}

func (l *loop) run(ctx context.Context) {
	for {
		l.pass(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(settings(l.core.Config()).Store.Sync):
		}
	}
}

// pass writes an entry for each tenant that has changed, unless another process does so.
func (l *loop) pass(ctx context.Context) {
	if ok, err := l.lock.TryLock(); !ok || err != nil {
		return
	}
	if l.node == "" {
		name, err := l.store.nodeFor(ctx)
		if err != nil {
			if message := fault.Message(err); message != l.failed && ctx.Err() == nil {
				l.failed = message
				l.core.Log.Error("nothing is copied to the bucket", "error", err)
			}
			return
		}
		l.node = name
	}
	err := l.core.Homes.Each(ctx, func(e home.Entry) error {
		if e.Error == "" && (e.Suspension == nil || !e.Suspension.Deleting) {
			l.visit(ctx, e.ID)
		}
		return ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		l.core.Log.Error("the tenants cannot be listed, and are not copied", "error", err)
	}
	if time.Since(l.shared) > sharedEvery && ctx.Err() == nil {
		l.shared = time.Now()
		if err := l.copyShared(ctx); err != nil {
			l.core.Log.Error("what all tenants share was not copied to the bucket", "error", err)
		}
	}
	if time.Since(l.deleted) > deletedEvery && ctx.Err() == nil {
		l.deleted = time.Now()
		if err := l.findDeleted(ctx); err != nil {
			l.core.Log.Warn("deleted tenants were not marked in the bucket", "error", err)
		}
	}
}

// visit copies a tenant if it has changed.
func (l *loop) visit(ctx context.Context, id tenant.ID) {
	c := l.tenants[id]
	if c == nil {
		version, _ := os.ReadFile(l.copiedFile(id))
		c = &copied{version: string(version)}
		l.tenants[id] = c
	}
	now := time.Now()
	version := l.core.Homes.Version(id)
	same := version == "" || version == c.version && (now.Sub(c.changed) > time.Hour || now.Sub(c.files) < filesEvery)
	if same || now.Before(c.retry) {
		return
	}
	if version != c.version {
		c.changed = now
	}
	err := l.copy(ctx, id, c)
	if err == nil {
		c.files, c.retry, c.wait, c.failed = now, time.Time{}, 0, ""
		if c.version != version {
			c.version = version
			_ = os.WriteFile(l.copiedFile(id), []byte(version), 0o600) // else it is copied once more
		}
		return
	}
	if ctx.Err() != nil {
		return // close tries again
	}
	c.wait = min(max(2*c.wait, time.Second), time.Minute)
	c.retry = now.Add(c.wait)
	if message := fault.Message(err); message != c.failed {
		c.failed = message
		l.core.Log.Error("a tenant was not copied to the bucket", "tenant", id.String(), "error", err)
	}
}

func (l *loop) copiedFile(id tenant.ID) string {
	return filepath.Join(l.store.dir, "private", id.Dir(), copiedFile)
}

// copy writes an entry for a tenant, if it differs from the last one, and deletes entries that need not be kept any more.
func (l *loop) copy(ctx context.Context, id tenant.ID, c *copied) error {
	if c.shipper == nil {
		log, err := l.store.of(id)
		if err != nil {
			return err
		}
		c.shipper = &shipper{id: id, node: l.node, log: log, shared: l.store}
	}
	h, err := l.core.Homes.AcquireSuspended(ctx, id)
	if err != nil {
		if fault.KindOf(err) == fault.NotFound {
			return nil
		}
		return err
	}
	defer h.Release(context.WithoutCancel(ctx))
	snapshot := c.shipper.head.Base
	if err := c.shipper.sync(ctx, home.Original{Home: h}); err != nil {
		return err
	}
	if keep := settings(l.core.Config()).Store.Keep; keep > 0 && c.shipper.head.Base != snapshot {
		if err := prune(ctx, c.shipper.log, time.Now().Add(-keep)); err != nil {
			l.core.Log.Warn("old entries were not deleted from the bucket", "tenant", id.String(), "error", err)
		}
	}
	return nil
}

// findDeleted marks the tenants of this data directory that are in the bucket and were deleted, so that they are not restored.
func (l *loop) findDeleted(ctx context.Context) error {
	names, err := l.store.names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == control {
			continue
		}
		if _, err := os.Lstat(filepath.Join(l.store.dir, "private", name)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		log, err := l.store.named(name)
		if err != nil {
			return err
		}
		last, h, err := lastHead(ctx, log)
		if err != nil || last == 0 || h.Node != l.node {
			continue
		}
		if keep := settings(l.core.Config()).Store.Keep; h.Deleted {
			if keep > 0 && time.Since(h.Time) > keep {
				err = erase(ctx, log)
			}
			if err != nil {
				return err
			}
			continue
		}
		delete(l.tenants, h.Tenant)
		gone := head{Format: format, Tenant: h.Tenant, Node: l.node, Time: time.Now().UTC(), Deleted: true, Base: last + 1}
		if err := log.Append(ctx, last+1, gone, empty()); err != nil {
			return err
		}
	}
	return nil
}
