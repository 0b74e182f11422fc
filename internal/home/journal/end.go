package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// End describes the new state of a run that this process gives up. The zero End deletes the run.
type End struct {
	State   State      // Queued, Running, Waiting or Ended; a running one has no owner then, like that of a process that died
	Outcome RunOutcome // of an ended one
	Reason  Reason     // of one that waits for a person, or has ended and can be resumed
	Wait    Wait       // of a queued or waiting one
	Result  []byte     // nil keeps the one that is stored
	Live    []byte     // of a waiting one: its progress and open questions; nil keeps what is stored
	Forget  bool       // its record is deleted: its code is not run again

	onRestart OnRestart // "" keeps it
	large     bool      // its record is too large
}

// Wait describes the conditions for which an execution without a process waits.
type Wait struct {
	Until  time.Time // zero means only for a signal or a person
	Events []string
	// Arrived reports whether an event that is no signal has happened already. It is called in the transaction from
	// which on such an event wakes the execution, see WakeIn. nil means that none has.
	Arrived func(context.Context, *store.Tx) (bool, error)
}

// end stores the end of a run. That of one that completed in the foreground is synced later: it would
// only be repeated from its record.
func (l *Log) end(ctx context.Context, id string, e End) error {
	if e.State == absent {
		return endCompleted(ctx, l, id)
	}
	return l.update(ctx, func(tx *store.Tx) error { return endIn(ctx, l, tx, id, e) })
}

// endCompleted appends the end of a run that is deleted.
func endCompleted(ctx context.Context, l *Log, id string) error {
	own, err := l.cfg.Process.name()
	if err != nil || ctx.Err() != nil {
		return cmp.Or(err, context.Cause(ctx))
	}
	return l.calls.add(ctx, []line{{kind: recordEnded, execution: id, at: time.Now().UnixMilli(), state: own}}, true)
}

// deleteCompleted deletes a run and its record, if the process that has completed it owns it.
func deleteCompleted(ctx context.Context, tx *store.Tx, id, owner string) error {
	if err := deleteRecord(ctx, tx, id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM runs WHERE execution = ? AND state = 'running' AND owner = ?", id, owner)
	return err
}

// endIn makes the transition of a run that its owner gives up. Signals that the code has not received are
// kept as long as the record.
func endIn(ctx context.Context, l *Log, tx *store.Tx, id string, e End) error {
	if e.Result != nil {
		if err := insert(ctx, l, tx, id); err != nil {
			return err
		}
	}
	set, args, err := endColumns(ctx, l, tx, id, e)
	if err != nil {
		return err
	}
	moved, err := move(ctx, l.cfg.Process, tx, id, giveUp, e.State, set, args...)
	if err != nil || !moved {
		return err
	}
	if e.Forget {
		err = deleteRecord(ctx, tx, id)
	}
	if err == nil && e.State == Ended {
		err = trim(ctx, tx)
	}
	return err
}

// insert stores a run whose record is not on disk.
func insert(ctx context.Context, l *Log, tx *store.Tx, id string) error {
	own, err := l.cfg.Process.name()
	if err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	_, err = tx.ExecContext(ctx, "INSERT INTO runs (execution, state, owner, created, changed) VALUES (?, 'running', ?, ?, ?) ON "+
		"CONFLICT (execution) DO NOTHING", id, own, now, now)
	return err
}

// waitColumns returns the hashes of the events for which a run waits, and when it is due: at once if one has arrived.
func waitColumns(ctx context.Context, tx *store.Tx, id string, w Wait) (events []string, due sql.NullInt64, err error) {
	if !w.Until.IsZero() {
		due = sql.NullInt64{Int64: w.Until.UnixMilli(), Valid: true}
	}
	arrived := false
	if w.Arrived != nil {
		if arrived, err = w.Arrived(ctx, tx); err != nil {
			return nil, due, err
		}
	}
	for _, name := range w.Events {
		hash := eventHash(id, name)
		sent, err := hasSignal(ctx, tx, id, hash)
		if err != nil {
			return nil, due, err
		}
		events, arrived = append(events, hash), arrived || sent
	}
	if arrived {
		due = sql.NullInt64{Int64: time.Now().UnixMilli(), Valid: true}
	}
	return events, due, nil
}

// endColumns returns the columns that End sets. A run that waits is due at once if an event for it has
// arrived, or if it is to be cancelled.
func endColumns(ctx context.Context, l *Log, tx *store.Tx, id string, e End) (set string, args []any, err error) {
	events, due, err := waitColumns(ctx, tx, id, e.Wait)
	if err != nil {
		return "", nil, err
	}
	set = "outcome = ?, reason = ?, events = ?, due = CASE WHEN cancel AND ? IN ('queued', 'waiting') THEN ? ELSE ? END"
	args = []any{string(e.Outcome), string(e.Reason), strings.Join(events, " "), string(e.State), time.Now().UnixMilli(), due}
	if e.Result != nil || e.Live != nil {
		x, err := l.cipher(id)
		if err != nil {
			return "", nil, err
		}
		if e.Result != nil {
			set, args = set+", result = ?", append(args, x.encrypt(ofResult, 0, e.Result))
		}
		if e.Live != nil {
			set, args = set+", live = ?", append(args, x.encrypt(ofLive, 0, e.Live))
		}
	}
	if e.onRestart != "" {
		set, args = set+", on_restart = ?", append(args, string(e.onRestart))
	}
	if e.large {
		set += ", recorded = 2"
	}
	return set, args, nil
}

// trim deletes the oldest runs that have ended beyond the limits.
func trim(ctx context.Context, tx *store.Tx) error {
	var many bool
	const ended = "FROM runs INDEXED BY runs_ended WHERE state = 'ended' AND (on_restart != '' OR result IS NOT NULL)"
	if err := tx.QueryRowContext(ctx, "SELECT count(*) > ? "+ended, maxBackgroundEnded).Scan(&many); err != nil {
		return err
	}
	if many {
		if err := expire(ctx, tx, "execution IN (SELECT execution "+ended+" ORDER BY changed DESC LIMIT -1 OFFSET ?)",
			maxBackgroundEnded); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM runs WHERE execution IN (SELECT execution FROM runs INDEXED BY runs_workflow WHERE "+
		"workflow != '' AND state = 'ended' AND recorded = 0 ORDER BY created DESC LIMIT -1 OFFSET ?)", maxWorkflowRuns)
	return err
}

// expire deletes ended runs that match a condition; of those that can be resumed, only the result. A run
// of a workflow stays.
func expire(ctx context.Context, tx *store.Tx, where string, args ...any) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM runs WHERE state = 'ended' AND recorded = 0 AND workflow = '' AND "+where,
		args...); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE runs SET on_restart = '', live = NULL, result = CASE workflow WHEN '' THEN NULL ELSE result "+
		"END WHERE state = 'ended' AND (on_restart != '' OR result IS NOT NULL) AND "+where, args...)
	return err
}

// deleteRecord deletes the record of a run, and the signals that its code has not received.
func deleteRecord(ctx context.Context, tx *store.Tx, id string) error {
	for _, q := range []string{
		"DELETE FROM run_events WHERE execution = ?",
		"UPDATE runs SET recorded = 0, bytes = 0 WHERE execution = ?",
	} {
		if _, err := tx.ExecContext(ctx, q, id); err != nil {
			return err
		}
	}
	return nil
}

// Cancel cancels an execution that has not ended. One that no process runs has ended when Cancel
// returns; the process that runs one ends it soon, as SetLive reports.
func (b *Runs) Cancel(ctx context.Context, id string) error {
	return b.log.update(ctx, func(tx *store.Tx) error {
		var known bool
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM runs WHERE execution = ? AND (on_restart != '' OR workflow != ''))",
			id).Scan(&known); err != nil {
			return err
		}
		if !known {
			return unknownBackground(id)
		}
		moved, err := move(ctx, b.log.cfg.Process, tx, id, cancel, Ended, "outcome = ?, due = NULL, events = ''", string(Cancelled))
		if err != nil {
			return err
		}
		if moved {
			return errors.Join(deleteRecord(ctx, tx, id), trim(ctx, tx))
		}
		_, err = tx.ExecContext(ctx, "UPDATE runs SET cancel = 1 WHERE execution = ? AND state = 'running'", id)
		return err
	})
}

// Sweep deletes the executions that ended before a time. It moves the times of executions that a clock
// has recorded which was put back since, so that they and their plans and questions expire after their own
// lifetime.
func (b *Runs) Sweep(ctx context.Context, before time.Time) error {
	return b.log.update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE runs SET created = min(created, ?1), changed = min(changed, ?1) WHERE (created > ?1 OR "+
			"changed > ?1) AND (recorded > 0 OR state = 'ended')", time.Now().UnixMilli())
		return errors.Join(err, expire(ctx, tx, "changed < ?", before.UnixMilli()))
	})
}

// Created returns when a record was begun; see Sweep.
func Created(r *Record) time.Time { return r.created }
