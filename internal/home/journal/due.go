package journal

import (
	"context"
	"database/sql"
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
		for _, id := range all {
			r, err := scanRun(l, tx.QueryRowContext(ctx, columns+"WHERE execution = ?", id))
			if err == nil {
				err = decryptRun(l, &r)
			}
			if err != nil {
				return err
			}
			// its questions are not open now
			moved, err := move(ctx, l.cfg.Process, tx, id, claim, Running, "due = NULL, events = '', live = NULL")
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

// maxCandidates is how many runs Claim considers at once.
const maxCandidates = 10

// dueRuns returns some runs that may be claimed, the longest due first. One that began to wait in the future may be
// claimed, since the clock was put back: if it waits for a number of seconds, these may have passed.
func dueRuns(ctx context.Context, l *Log, tx *store.Tx) (all []string, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT execution, owner FROM (SELECT execution, owner, NULL AS due, created FROM runs WHERE state = 'running' AND on_restart != ''
			UNION ALL SELECT * FROM (SELECT execution, owner, due, created FROM runs WHERE state = 'queued' AND due <= ?1 ORDER BY due, created LIMIT ?3)
			UNION ALL SELECT * FROM (SELECT execution, owner, due, created FROM runs WHERE state = 'waiting' AND due <= ?1 ORDER BY due, created LIMIT ?3)
			UNION ALL SELECT execution, owner, due, created FROM runs WHERE state IN ('queued', 'waiting') AND due > ?1 AND changed > ?2)
		ORDER BY due IS NULL DESC, due, created`, time.Now().UnixMilli(), time.Now().Add(clockStep).UnixMilli(), maxCandidates)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() && len(all) < maxCandidates {
		var id, owner string
		if err := rows.Scan(&id, &owner); err != nil {
			return nil, err
		}
		if !l.cfg.Process.isAlive(owner) {
			all = append(all, id)
		}
	}
	return all, rows.Err()
}

// touch passes the time of the next due run to Config.Due. It is called in the transaction, so that the
// calls of several processes have the order of their transactions.
func touch(ctx context.Context, l *Log, tx *store.Tx) error {
	if l.cfg.Due == nil {
		return nil
	}
	var due sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT min(due) FROM (SELECT min(due) AS due FROM runs WHERE state = 'queued' UNION ALL SELECT "+
		"min(due) FROM runs WHERE state = 'waiting')").Scan(&due); err != nil {
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
