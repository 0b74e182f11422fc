package home

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// checkEvery is how often Check opens the home of a tenant that nobody uses.
const checkEvery = 10 * time.Minute

// checked is when a home was found in order.
type checked map[tenant.ID]time.Time

// Check reports whether the databases of tenants can be used: of those whose homes are
// open, of those that could not be opened last, and of the named ones that have data.
// It returns the first that cannot, with the tenant.
func (t *Homes) Check(ctx context.Context, named []tenant.ID) (tenant.ID, error) {
	for _, id := range t.toCheck(named) {
		if err := t.checkOne(ctx, id); err != nil && ctx.Err() == nil {
			return id, err
		}
	}
	return tenant.ID{}, context.Cause(ctx)
}

func (t *Homes) toCheck(named []tenant.ID) (all []tenant.ID) {
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
	if has, err := t.Exists(id); err != nil || !has {
		return err
	}
	home, err := t.Acquire(ctx, id)
	if err != nil {
		return err
	}
	defer home.Release(context.WithoutCancel(ctx))
	if err := home.rooms.db.Check(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked[id] = time.Now()
	return nil
}

// noteOpened remembers whether the home of a tenant could be opened.
func (t *Homes) noteOpened(id tenant.ID, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.unopened, id); err != nil {
		t.unopened[id] = true
	}
}

// lost refuses a home whose database was deleted: an empty one would take its place.
// The lock of a view is made after the database, whenever a home is opened.
func (p places) lost() error {
	_, err := os.Lstat(p.db)
	_, once := os.Lstat(p.skillLock)
	if !errors.Is(err, fs.ErrNotExist) || once != nil {
		return nil
	}
	return fault.New(fault.Internal, "the tenant's database is gone").
		WithHint("restore tenant.db from a backup; to start with an empty one move its directory in private/ away")
}
