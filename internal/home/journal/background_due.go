package journal

import (
	"context"
	"database/sql"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// touch passes the time of the next due one to Config.Due. It is called in the transaction, so that the
// calls of several processes have the order of their transactions.
func (b *Background) touch(ctx context.Context, tx *store.Tx) error {
	if b.log.cfg.Due == nil {
		return nil
	}
	var due sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT min(due) FROM journal_background WHERE state != 'ended'").Scan(&due); err != nil {
		return err
	}
	var at time.Time
	if due.Valid {
		at = time.UnixMilli(due.Int64)
	}
	check, err := b.nextCheck(ctx, tx)
	if err != nil {
		return err
	}
	if !check.IsZero() && (at.IsZero() || at.After(check)) {
		at = check
	}
	return b.log.cfg.Due(at)
}

// nextCheck returns when a daemon has to see whether the processes of running executions live: now if
// one does not, so that updates do not postpone that; zero if no execution runs.
func (b *Background) nextCheck(ctx context.Context, tx *store.Tx) (at time.Time, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT DISTINCT process FROM journal_background WHERE state = 'running'")
	if err != nil {
		return at, err
	}
	defer rows.Close()
	for rows.Next() {
		var process string
		if err := rows.Scan(&process); err != nil {
			return at, err
		}
		if !b.log.cfg.Process.isAlive(process) {
			return time.Now(), nil
		}
		at = time.Now().Add(LeaseInterval)
	}
	return at, rows.Err()
}
