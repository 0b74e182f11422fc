package home

import (
	"context"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// pending states which work a tenant's database has for later. An imported or restored tenant has
// no file in due and scheduled, without which no daemon opens it for that work.
type pending struct{ executions, schedules bool }

// pendingWork reads the database of a tenant that no process uses.
func pendingWork(ctx context.Context, db *store.DB) (p pending, err error) {
	err = db.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM runs WHERE on_restart != '' AND state != 'ended'), EXISTS (SELECT 1 FROM schedules)").
			Scan(&p.executions, &p.schedules)
	})
	return p, err
}

// wake makes the work due now. The daemon that opens the tenant then sets the times.
func (l layout) wake(id tenant.ID, p pending) error {
	var errs []error
	if p.executions {
		errs = append(errs, l.due().set(id, time.Now()))
	}
	if p.schedules {
		errs = append(errs, l.scheduled().set(id, time.Now()))
	}
	return errors.Join(errs...)
}
