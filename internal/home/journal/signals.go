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
func (b *Runs) Signal(ctx context.Context, id, event string, value json.RawMessage) error {
	if b.log.cfg.Process == nil {
		return errNoProcess
	}
	x, err := b.log.box(id)
	if err != nil {
		return err
	}
	hash := eventHash(id, event)
	return b.log.update(ctx, func(tx *store.Tx) error {
		var known, waiting int
		err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM runs WHERE execution = ?1 AND (state != 'ended' OR recorded > 0)),
			(SELECT count(*) FROM journal_signals WHERE execution = ?1)`, id).Scan(&known, &waiting)
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
			_, err = tx.ExecContext(ctx, "UPDATE runs SET due = ? WHERE execution = ? AND state = 'waiting' AND instr(events, ?) > 0", time.Now().UnixMilli(), id, hash)
		}
		return err
	})
}

// oldestSignal returns the oldest signal of an event; number is 0 if there is none.
func oldestSignal(ctx context.Context, tx *store.Tx, id, event string) (number int, ciphertext []byte, err error) {
	err = tx.QueryRowContext(ctx, "SELECT number, value FROM journal_signals WHERE execution = ? AND event = ? ORDER BY number LIMIT 1", id, eventHash(id, event)).Scan(&number, &ciphertext)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return number, ciphertext, err
}

// findSignal returns the oldest signal of an event with its value; number is 0 if there is none.
func findSignal(ctx context.Context, l *Log, id, event string) (number int, value []byte, err error) {
	err = l.calls.View(ctx, func(tx *store.Tx) error {
		number, value, err = oldestSignal(ctx, tx, id, event)
		return err
	})
	if err != nil || number == 0 {
		return 0, nil, err
	}
	x, err := l.box(id)
	if err != nil {
		return 0, nil, err
	}
	value, err = x.decrypt(ofSignal, number, value)
	return number, value, err
}

// deleteSignal reports whether the signal was there: another thread or process may have taken it.
func deleteSignal(ctx context.Context, tx *store.Tx, number int) (bool, error) {
	done, err := tx.ExecContext(ctx, "DELETE FROM journal_signals WHERE number = ?", number)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// TakeSignal answers an open call of the record with the oldest signal of an event: answer converts
// its value. It returns nil if there is none, or if another thread was faster. Signal and answer change
// in one commit.
func TakeSignal(ctx context.Context, r *Record, number int, event string, answer func(value json.RawMessage) Answer) (*Answer, error) {
	id, value, err := findSignal(ctx, r.log, r.id, event)
	if err != nil || id == 0 {
		return nil, err
	}
	a, taken := answer(value), false
	err = answerNow(ctx, r, number, a, func(ctx context.Context, tx *store.Tx) (bool, error) {
		taken, err = deleteSignal(ctx, tx, id)
		return taken, err
	})
	if err != nil || !taken {
		return nil, err
	}
	return &a, nil
}
