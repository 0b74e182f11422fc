package home

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// checkEvery is how often Check opens the home of an unused tenant.
const checkEvery = 10 * time.Minute

// checked is the time of the last successful check of each tenant.
type checked map[tenant.ID]time.Time

// Check checks the databases of tenants: of open homes, of homes whose last open failed, and of
// the named tenants that have data. It returns the failures.
func (t *Homes) Check(ctx context.Context, named []tenant.ID) (failed map[tenant.ID]error, err error) {
	failed = map[tenant.ID]error{}
	for _, id := range t.toCheck(named) {
		if err := t.checkOne(ctx, id); err != nil && ctx.Err() == nil && !t.isClosed() {
			failed[id] = err
		}
	}
	return failed, context.Cause(ctx)
}

// restorable returns the error of a home that cannot be opened. If a check has proved that its database
// is damaged, and only then, the hint has the commands that restore it.
func restorable(id tenant.ID, err error) error {
	if !errors.Is(err, store.ErrDamaged) {
		return err
	}
	return fault.Wrap(fault.Internal, err, "%s", fault.Message(err)).
		WithHint("the operator can restore the tenant from a backup: `sandpiper tenant suspend %[1]s && sandpiper restore FILE --tenant "+
			"%[1]s --replace && sandpiper tenant activate %[1]s`", id)
}

// Examine reads the databases of all tenants of a data directory completely, and calls f with each tenant
// and the error of its database, nil if there is none. It creates, migrates and restores nothing.
func Examine(ctx context.Context, root string, f func(tenant.ID, error)) error {
	l, err := newLayout(root)
	if err != nil {
		return err
	}
	dirs, err := os.ReadDir(l.private())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return l.fault(err)
	}
	for _, d := range dirs {
		id, ok, err := l.idOf(d.Name())
		if err != nil {
			return l.fault(err)
		}
		if !ok {
			continue
		}
		p := l.of(id)
		if err = p.checkDatabase(); err == nil {
			err = store.Examine(ctx, p.db)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		f(id, restorable(id, err))
	}
	return nil
}

func (t *pool) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Go runs f in the background, and Close waits for it. It reports false, without running f, after
// Close.
func (t *pool) Go(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.tasks.Go(f)
	}
	return !t.closed
}

func (t *pool) toCheck(named []tenant.ID) (all []tenant.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.homes {
		all = append(all, id)
	}
	for id := range t.unopened {
		if t.homes[id] == nil {
			all = append(all, id)
		}
	}
	for _, id := range named {
		if t.homes[id] == nil && !t.unopened[id] && time.Since(t.checked[id]) > checkEvery {
			all = append(all, id)
		}
	}
	return all
}

func (t *Homes) checkOne(ctx context.Context, id tenant.ID) error {
	e, err := t.Find(id)
	if fault.KindOf(err) == fault.NotFound || e.Suspension != nil {
		return nil
	}
	if err != nil {
		return err
	}
	home, err := t.acquireActive(ctx, id)
	if err != nil {
		return err
	}
	defer home.Release(context.WithoutCancel(ctx))
	if err := home.parts.db.Check(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked[id] = time.Now()
	return nil
}

// noteOpened records whether the home of a tenant could be opened.
func (t *pool) noteOpened(id tenant.ID, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.unopened, id); err != nil {
		t.unopened[id] = true
	}
}

// checkDatabase returns an error if the database was deleted; otherwise an empty one would
// replace it. The lock file of a projection is created after the database.
func (p paths) checkDatabase() error {
	if _, err := os.Lstat(p.db); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, once := os.Lstat(p.skillLock); once != nil {
		if errors.Is(once, fs.ErrNotExist) {
			once = nil
		}
		return dirFault(once)
	}
	return fault.Wrap(fault.Internal, store.ErrDamaged, "the tenant's database is gone")
}
