package journal

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Claim makes this process the owner of the run that is due, or of one that a daemon continues and whose
// owner has died. It returns the run as it was before; nil if there is none.
func (b *Runs) Claim(ctx context.Context) (claimed *Run, err error) {
	l := b.log
	err = l.update(ctx, func(tx *store.Tx) error {
		claimed = nil
		all, err := dueRuns(ctx, l, tx)
		if err != nil {
			return err
		}
		for _, r := range all {
			if err := decryptRun(l, &r); err != nil {
				return err
			}
			moved, err := move(ctx, l.cfg.Process, tx, r.Execution, claim, Running, "due = NULL, events = '', live = NULL") // its questions are not open now
			if err != nil || moved {
				claimed = &r
				return err
			}
		}
		return nil
	})
	return claimed, err
}

// clockStep is how far in the future a change of a row may be.
const clockStep = time.Second

// dueRuns returns the runs that may be claimed, the longest due first. The rows are few: those that wait for
// later are found by an index. One that began to wait in the future may be claimed, since the clock was
// put back: if it waits for a number of seconds, these may have passed.
func dueRuns(ctx context.Context, l *Log, tx *store.Tx) (all []Run, err error) {
	all, err = selectRuns(ctx, l, tx, `WHERE state = 'running' AND on_restart != '' OR state IN ('queued', 'waiting') AND (due <= ? OR due IS NOT NULL AND changed > ?)
		ORDER BY due IS NULL DESC, due, created LIMIT 1000`, time.Now().UnixMilli(), time.Now().Add(clockStep).UnixMilli())
	return slices.DeleteFunc(all, func(r Run) bool { return r.Alive }), err
}

// touch passes the time of the next due run to Config.Due. It is called in the transaction, so that the
// calls of several processes have the order of their transactions.
func touch(ctx context.Context, l *Log, tx *store.Tx) error {
	if l.cfg.Due == nil {
		return nil
	}
	var due sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT min(due) FROM runs WHERE state != 'ended'").Scan(&due); err != nil {
		return err
	}
	var at time.Time
	if due.Valid {
		at = time.UnixMilli(due.Int64)
	}
	check, err := nextCheck(ctx, l, tx)
	if err != nil {
		return err
	}
	if !check.IsZero() && (at.IsZero() || at.After(check)) {
		at = check
	}
	return l.cfg.Due(at)
}

// nextCheck returns when a daemon has to see whether the processes of running executions live: now if
// one does not, so that updates do not postpone that; zero if no execution runs.
func nextCheck(ctx context.Context, l *Log, tx *store.Tx) (at time.Time, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT DISTINCT owner FROM runs WHERE state = 'running' AND on_restart != ''")
	if err != nil {
		return at, err
	}
	defer rows.Close()
	for rows.Next() {
		var owner string
		if err := rows.Scan(&owner); err != nil {
			return at, err
		}
		if !l.cfg.Process.isAlive(owner) {
			return time.Now(), nil
		}
		at = time.Now().Add(LeaseInterval)
	}
	return at, rows.Err()
}
