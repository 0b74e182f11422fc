package home

import (
	"context"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// pending has the names of the marks of the work that a tenant's database has for later. An imported or
// restored tenant has none, without which no daemon opens it for that work.
type pending []string

// pendingWork reads the database of a tenant that no process uses.
func (l layout) pendingWork(ctx context.Context, db *store.DB) (p pending, err error) {
	work := append([]Feature{{Name: Executions, Pending: "EXISTS (SELECT 1 FROM runs WHERE on_restart != '' AND state != 'ended')"}},
		l.features...)
	err = db.View(ctx, func(tx *store.Tx) error {
		for _, f := range work {
			var is bool
			if f.Pending == "" {
				continue
			}
			if err := tx.QueryRowContext(ctx, "SELECT "+f.Pending).Scan(&is); err != nil {
				return err
			}
			if is {
				p = append(p, f.Name)
			}
		}
		return nil
	})
	return p, err
}

// wake makes the work due now. The daemon that opens the tenant then sets the times.
func (l layout) wake(id tenant.ID, p pending) error {
	var errs []error
	for _, name := range p {
		errs = append(errs, l.marks(name).Set(id, time.Now()))
	}
	return errors.Join(errs...)
}
