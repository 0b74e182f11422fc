package journal

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// End stores the outcome of an execution that this process runs. Signals that the code has not
// received are kept as long as the record, for a resume.
func (b *Background) End(ctx context.Context, id string, o BackgroundOutcome, result []byte) error {
	if len(result) > maxBackgroundBytes {
		return fault.New(fault.Exhausted, "the result has %d bytes; at most %d are kept", len(result), maxBackgroundBytes)
	}
	x, err := b.box(id)
	if err != nil {
		return err
	}
	var ciphertext []byte
	if result != nil {
		ciphertext = x.encrypt(ofResult, 0, result)
	}
	return b.update(ctx, func(tx *store.Tx) error {
		return b.end(ctx, tx, id, o, ciphertext)
	})
}

// Keep stores the result of an execution that ran in the foreground and outlived its request.
// Background.List omits it.
func Keep(ctx context.Context, b *Background, id string, o BackgroundOutcome, result []byte) error {
	if b.log.cfg.Process == nil {
		return nil
	}
	if len(result) > maxBackgroundBytes {
		return fault.New(fault.Exhausted, "the result has %d bytes; at most %d are kept", len(result), maxBackgroundBytes)
	}
	x, err := b.box(id)
	if err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	return b.update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO journal_background (execution, state, on_restart, process, created, changed, request) VALUES (?, 'running', ?, '', ?, ?, ?)",
			id, string(foreground), now, now, x.encrypt(ofTask, 0, nil))
		if err != nil {
			return err
		}
		return b.end(ctx, tx, id, o, x.encrypt(ofResult, 0, result))
	})
}

func (b *Background) end(ctx context.Context, tx *store.Tx, id string, o BackgroundOutcome, ciphertext []byte) error {
	_, err := tx.ExecContext(ctx, `UPDATE journal_background SET state = 'ended', outcome = ?, process = '', due = NULL, events = '', changed = ?, result = coalesce(?, result)
		WHERE execution = ? AND state != 'ended'`, string(o), time.Now().UnixMilli(), ciphertext, id)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM journal_signals WHERE execution = ?1 AND NOT EXISTS (SELECT 1 FROM journal_executions WHERE execution = ?1)", id); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM journal_background WHERE state = 'ended' AND execution NOT IN (SELECT execution FROM journal_background WHERE state = 'ended' ORDER BY changed DESC LIMIT ?)", maxBackgroundEnded)
	return err
}

// Wait is what an execution without a process waits for.
type Wait struct {
	Until  time.Time // zero means only for a signal
	Events []string
}

// Release gives up an execution that this process runs. It becomes due as wait states, or at once
// if a signal for it has arrived already.
func (b *Background) Release(ctx context.Context, id string, s BackgroundState, wait Wait) error {
	var due sql.NullInt64
	if !wait.Until.IsZero() {
		due = sql.NullInt64{Int64: wait.Until.UnixMilli(), Valid: true}
	}
	events := make([]string, len(wait.Events))
	for i, e := range wait.Events {
		events[i] = eventHash(id, e)
	}
	return b.update(ctx, func(tx *store.Tx) error {
		for _, e := range events {
			var n int
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM journal_signals WHERE execution = ? AND event = ?", id, e).Scan(&n); err != nil {
				return err
			}
			if n > 0 {
				due = sql.NullInt64{Int64: time.Now().UnixMilli(), Valid: true}
			}
		}
		now := time.Now().UnixMilli()
		_, err := tx.ExecContext(ctx, `UPDATE journal_background SET state = ?, process = '', due = CASE WHEN cancel THEN ? ELSE ? END, events = ?, changed = ? WHERE execution = ? AND state != 'ended'`,
			string(s), now, due, strings.Join(events, " "), now, id)
		return err
	})
}

// Cancel cancels an execution that has not ended. One that no process runs has ended when Cancel
// returns; the process that runs one ends it soon, as SetLive reports.
func (b *Background) Cancel(ctx context.Context, id string) error {
	e, err := b.Find(ctx, id)
	if err != nil {
		return err
	}
	if e.State == Ended {
		return nil
	}
	return b.update(ctx, func(tx *store.Tx) error {
		e, err := b.scan(tx.QueryRowContext(ctx, columns+"FROM journal_background WHERE execution = ?", id))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Alive {
			_, err = tx.ExecContext(ctx, "UPDATE journal_background SET cancel = 1 WHERE execution = ?", id)
			return err
		}
		if err := b.end(ctx, tx, id, Cancelled, nil); err != nil {
			return err
		}
		return deleteRecord(ctx, tx, id)
	})
}

// Sweep deletes the executions that ended before a time. It moves the times of executions that a clock
// has recorded which was put back since, so that they and their plans and questions expire after their own
// lifetime.
func (b *Background) Sweep(ctx context.Context, before time.Time) error {
	return b.update(ctx, func(tx *store.Tx) error {
		for _, q := range []string{
			"UPDATE journal_executions SET created = min(created, ?1), changed = min(changed, ?1) WHERE created > ?1 OR changed > ?1",
			"UPDATE journal_background SET changed = ?1 WHERE state = 'ended' AND changed > ?1",
		} {
			if _, err := tx.ExecContext(ctx, q, time.Now().UnixMilli()); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM journal_background WHERE state = 'ended' AND changed < ?", before.UnixMilli())
		return err
	})
}

// Created returns when a record was begun; see Sweep.
func Created(r *Record) time.Time { return r.created }
