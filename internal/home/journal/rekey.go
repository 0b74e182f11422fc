package journal

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Rekey encrypts the records of l for the log to, which has the same database, and another key or
// tenant. No process may run the executions. It returns the number of damaged records, which
// remain damaged.
func (l *Log) Rekey(ctx context.Context, to *Log) (damaged int, err error) {
	from, err := l.tenantBox()
	if err != nil {
		return 0, err
	}
	target, err := to.tenantBox()
	if err != nil {
		return 0, err
	}
	err = l.calls.Update(ctx, func(tx *store.Tx) error {
		for _, table := range []string{"journal_executions", "journal_background"} {
			if _, err := tx.ExecContext(ctx, "UPDATE "+table+" SET process = ''"); err != nil {
				return err
			}
		}
		damaged, err = from.Rekey(ctx, tx, target.Box, ofRequest, ofArguments, ofAnswer, ofTask, ofLive, ofResult, ofSignal)
		return err
	})
	return damaged, err
}

// tenantBox returns the box of all executions.
func (l *Log) tenantBox() (box, error) {
	key, err := l.cfg.Process.key()
	if err != nil {
		return box{}, err
	}
	return newBox(key, l.cfg.Tenant.String(), "")
}
