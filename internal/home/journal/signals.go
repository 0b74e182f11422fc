package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// A signal is an event of a run that another process may send: its method and its state.
const (
	methodSignal = "signal"
	sent         = "sent"
)

// Reserved begins the names of events that no caller can send.
const Reserved = "\x00"

// ApprovalEvent is the event that an approval is no longer open.
func ApprovalEvent(id string) string { return Reserved + "approval " + id }

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
	x, err := b.log.cipher(id)
	if err != nil {
		return err
	}
	hash := eventHash(id, event)
	return b.log.update(ctx, func(tx *store.Tx) error {
		var known bool
		var waiting, latest int
		err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM runs WHERE execution = ?1 AND (state != 'ended' OR recorded > 0)), count(*), coalesce(min(number), 0)
			FROM run_events WHERE execution = ?1 AND number < 0`, id).Scan(&known, &waiting, &latest)
		switch {
		case err != nil:
			return err
		case !known:
			return fault.New(fault.NotFound, "there is no execution %.60q that can wait for an event", id).
				WithHint("list_background_tasks, or `sandpiper executions list`, lists executions")
		case waiting >= maxSignals:
			return fault.New(fault.Exhausted, "execution %.60s has %d signals that it has not waited for, which is the maximum", id,
				waiting)
		}
		if err := putHostCall(ctx, tx, line{
			execution: id,
			number:    int64(latest - 1),
			method:    methodSignal,
			server:    hash,
			state:     sent,
			arguments: x.encrypt(ofArguments, latest-1, value),
		}); err != nil {
			return err
		}
		_, err = wake(ctx, tx, id, hash)
		return err
	})
}

// wake makes a run due that waits for the event with a hash. It reports whether it does.
func wake(ctx context.Context, tx *store.Tx, id, hash string) (bool, error) {
	done, err := tx.ExecContext(ctx, "UPDATE runs SET due = ? WHERE execution = ? AND state = 'waiting' AND instr(events, ?) > 0",
		time.Now().UnixMilli(), id, hash)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// WakeIn makes a run due that waits for an event, in the transaction of that event in the same database.
func (b *Runs) WakeIn(ctx context.Context, tx *store.Tx, id, event string) error {
	if b.log.cfg.Process == nil {
		return nil
	}
	woken, err := wake(ctx, tx, id, eventHash(id, event))
	if err != nil || !woken {
		return err
	}
	return touch(ctx, b.log, tx)
}

// Signals returns the values of the signals of an event that an execution has not taken.
func Signals(ctx context.Context, b *Runs, id, event string) (values []json.RawMessage, err error) {
	all, err := findSignals(ctx, b.log, id, event, -1)
	for _, s := range all {
		values = append(values, s.value)
	}
	return values, err
}

// HasSignal reports whether an execution has a signal of an event that it has not taken.
func HasSignal(ctx context.Context, b *Runs, id, event string) (has bool, err error) {
	err = b.log.calls.View(ctx, func(tx *store.Tx) error {
		has, err = hasSignal(ctx, tx, id, eventHash(id, event))
		return err
	})
	return has, err
}

func hasSignal(ctx context.Context, tx *store.Tx, id, hash string) (has bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM run_events WHERE execution = ? AND number < 0 AND server = ?)", id, hash).
		Scan(&has)
	return has, err
}

// signal is a signal on record.
type signal struct {
	number     int
	ciphertext []byte
	value      json.RawMessage
}

// findSignals returns the oldest signals of an event; a negative number means all.
func findSignals(ctx context.Context, l *Log, id, event string, most int) (all []signal, err error) {
	x, err := l.cipher(id)
	if err != nil {
		return nil, err
	}
	err = l.calls.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT number, arguments FROM run_events WHERE execution = ? AND number < 0 AND server = ? "+
			"ORDER BY number DESC LIMIT ?", id, eventHash(id, event), most)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var s signal
			if err := rows.Scan(&s.number, &s.ciphertext); err != nil {
				return err
			}
			if s.value, err = x.decrypt(ofArguments, s.number, s.ciphertext); err != nil {
				return err
			}
			all = append(all, s)
		}
		return rows.Err()
	})
	return all, err
}

// deleteSignal reports whether the signal was there: another thread or process may have taken it, and
// another signal may have its number.
func deleteSignal(ctx context.Context, tx *store.Tx, id string, s signal) (bool, error) {
	done, err := tx.ExecContext(ctx, "DELETE FROM run_events WHERE execution = ? AND number = ? AND arguments = ?", id, s.number,
		s.ciphertext)
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
	all, err := findSignals(ctx, r.log, r.id, event, 1)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	s := all[0]
	a, taken := answer(s.value), false
	err = answerNow(ctx, r, number, a, func(ctx context.Context, tx *store.Tx) (bool, error) {
		taken, err = deleteSignal(ctx, tx, r.id, s)
		return taken, err
	})
	if err != nil || !taken {
		return nil, err
	}
	return &a, nil
}

// DeliverSignals passes the signals of an event to deliver, the oldest first, and deletes those for which it returns nil.
// The error is the first one.
func DeliverSignals(ctx context.Context, b *Runs, id, event string, deliver func(value json.RawMessage) error) error {
	all, err := findSignals(ctx, b.log, id, event, -1)
	for _, s := range all {
		wrong := deliver(s.value)
		if wrong == nil {
			wrong = b.log.calls.Update(ctx, func(tx *store.Tx) error {
				_, err := deleteSignal(ctx, tx, id, s)
				return err
			})
		}
		err = cmp.Or(err, wrong)
	}
	return err
}
