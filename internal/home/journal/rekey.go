package journal

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Rekey encrypts the records of l for the log to, which has the same database, and another key or
// tenant. No process may run the executions. It returns the number of damaged records, which
// remain damaged.
func (l *Log) Rekey(ctx context.Context, to *Log) (damaged int, err error) {
	from, err := l.cipher("")
	if err != nil {
		return 0, err
	}
	target, err := to.cipher("")
	if err != nil {
		return 0, err
	}
	err = l.calls.Update(ctx, func(tx *store.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE runs SET owner = ''"); err != nil {
			return err
		}
		damaged, err = from.Rekey(ctx, tx, target.Cipher, ofRequest, ofArguments, ofAnswer, ofLive, ofResult)
		return err
	})
	return damaged, err
}
