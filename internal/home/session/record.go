package session

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Record returns the record of a step that Replay has returned; nil if it made no calls.
func (l *Log) Record(ctx context.Context, id string, number int) (record []byte, err error) {
	var encrypted []byte
	err = l.read(ctx, id, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT record FROM session_tasks WHERE session = ? AND number = ?", id, number).Scan(&encrypted)
	})
	if err != nil || encrypted == nil {
		return nil, err
	}
	record, err = l.cipher.Open(ofRecord, encrypted, id, number)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the record of %s of session %q is damaged or was encrypted with another key",
			taskID(number), id).
			WithHint("restore the file key of the data directory, or the tenant's database, from a backup")
	}
	return record, nil
}

// recordInterval is how many bytes the records of a session grow between checks of their total.
const recordInterval = 256 << 10

// trimRecords counts a record, and deletes records beyond the limits: the oldest ones of the session,
// then those of the least recently used sessions.
func (l rows) trimRecords(ctx context.Context, tx *store.Tx, id string, size int) error {
	var own int64
	err := tx.QueryRowContext(ctx, "UPDATE sessions SET records = records + ? WHERE id = ? RETURNING records", size, id).Scan(&own)
	if err != nil {
		return err
	}
	crossed := (own-int64(size))/recordInterval != own/recordInterval
	if most := l.cfg.RecordBytes / 4; own > most {
		_, err := tx.ExecContext(ctx, `UPDATE session_tasks SET record = NULL, recorded = ?1 WHERE session = ?2 AND number <= (SELECT max(number) FROM (
			SELECT number, sum(length(record)) OVER (ORDER BY number DESC) AS total FROM session_tasks WHERE session = ?2 AND record IS NOT NULL
		) WHERE total > ?3) AND record IS NOT NULL`, RecordDeleted, id, most*3/4)
		if err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, "UPDATE sessions SET records = (SELECT coalesce(sum(length(record)), 0) FROM session_tasks WHERE "+
			"session = ?1) WHERE id = ?1", id); err != nil {
			return err
		}
	}
	if !crossed {
		return nil
	}
	return l.trimAllRecords(ctx, tx, id)
}

// trimAllRecords deletes the records of the least recently used sessions, except id, until the rest
// is within the limit.
func (l rows) trimAllRecords(ctx context.Context, tx *store.Tx, id string) error {
	for {
		var oldest sql.NullString
		err := tx.QueryRowContext(ctx, `SELECT (SELECT id FROM sessions WHERE records > 0 AND id <> ? ORDER BY changed LIMIT 1)
			WHERE (SELECT sum(records) FROM sessions) > ?`, id, l.cfg.RecordBytes).Scan(&oldest)
		if errors.Is(err, sql.ErrNoRows) || err == nil && !oldest.Valid {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE session_tasks SET record = NULL, recorded = ? WHERE session = ? AND record IS NOT NULL",
			RecordDeleted, oldest.String); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE sessions SET records = 0 WHERE id = ?", oldest.String); err != nil {
			return err
		}
	}
}
