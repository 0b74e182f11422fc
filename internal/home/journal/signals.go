package journal

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// eventHash identifies an event of an execution without its name.
func eventHash(id, event string) string {
	sum := sha256.Sum256([]byte(id + "\x00" + event))
	return hex.EncodeToString(sum[:12])
}

// Signal sends an event with a JSON value to an execution that has not ended. It is kept until the
// code waits for it. It is on disk when Signal returns.
func (b *Background) Signal(ctx context.Context, id, event string, value json.RawMessage) error {
	if b.log.cfg.Process == nil {
		return errNoProcess
	}
	x, err := b.box(id)
	if err != nil {
		return err
	}
	hash := eventHash(id, event)
	return b.update(ctx, func(tx *store.Tx) error {
		var known, waiting int
		err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM journal_background WHERE execution = ? AND state != 'ended')
			+ (SELECT count(*) FROM journal_executions WHERE execution = ?), (SELECT count(*) FROM journal_signals WHERE execution = ?)`, id, id, id).Scan(&known, &waiting)
		switch {
		case err != nil:
			return err
		case known == 0:
			return fault.New(fault.NotFound, "there is no execution %.60q that can wait for an event", id).
				WithHint("list_background_tasks, or `sandpiper executions list`, lists executions")
		case waiting >= maxSignals:
			return fault.New(fault.Exhausted, "execution %.60s has %d signals that it has not waited for, which is the maximum", id, waiting)
		}
		r, err := tx.ExecContext(ctx, "INSERT INTO journal_signals (execution, event, value) VALUES (?, ?, x'')", id, hash)
		if err != nil {
			return err
		}
		number, err := r.LastInsertId()
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE journal_signals SET value = ? WHERE number = ?", x.encrypt(ofSignal, int(number), value), number)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE journal_background SET due = ? WHERE execution = ? AND state = 'waiting' AND instr(events, ?) > 0", time.Now().UnixMilli(), id, hash)
		}
		return err
	})
}

// TakeSignal deletes the oldest signal of an event and returns its value; nil if there is none.
func (b *Background) TakeSignal(ctx context.Context, id, event string) (value json.RawMessage, err error) {
	x, err := b.box(id)
	if err != nil {
		return nil, err
	}
	hash := eventHash(id, event)
	var number int
	var ciphertext []byte
	oldest := func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT number, value FROM journal_signals WHERE execution = ? AND event = ? ORDER BY number LIMIT 1", id, hash).Scan(&number, &ciphertext)
	}
	err = b.log.cfg.DB.View(ctx, func(tx *store.Tx) error { return oldest(ctx, tx) }) // usually there is none
	if err == nil {
		err = b.log.cfg.DB.Update(ctx, func(tx *store.Tx) error {
			if err := oldest(ctx, tx); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "DELETE FROM journal_signals WHERE number = ?", number)
			return err
		})
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return x.decrypt(ofSignal, number, ciphertext)
}

// TakeSignal answers an open call of the record with the oldest signal of an event: answer converts
// its value. It returns nil if there is none, or if another thread was faster. Signal and answer change
// in one commit.
func (r *Record) TakeSignal(ctx context.Context, number int, event string, answer func(value json.RawMessage) Answer) (taken *Answer, err error) {
	x, err := r.log.Background().box(r.id)
	if err != nil {
		return nil, err
	}
	var id int
	var ciphertext []byte
	err = r.log.cfg.DB.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT number, value FROM journal_signals WHERE execution = ? AND event = ? ORDER BY number LIMIT 1", r.id, eventHash(r.id, event)).Scan(&id, &ciphertext)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value, err := x.decrypt(ofSignal, id, ciphertext)
	if err != nil {
		return nil, err
	}
	a := answer(value)
	lost := false // another thread took the signal; the commit has the writes of others too
	err = answerNow(ctx, r, number, a, func(ctx context.Context, tx *store.Tx) (bool, error) {
		done, err := tx.ExecContext(ctx, "DELETE FROM journal_signals WHERE number = ?", id)
		if err != nil {
			return false, err
		}
		n, err := done.RowsAffected()
		lost = n == 0
		return !lost, err
	})
	if err != nil || lost {
		return nil, err
	}
	return &a, nil
}
