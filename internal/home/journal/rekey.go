package journal

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Rekey encrypts the records of l for the log to, which has the same database, and another key or
// tenant. No process may run the executions. It returns the number of damaged records, which
// remain damaged.
func (l *Log) Rekey(ctx context.Context, to *Log) (damaged int, err error) {
	from, err := l.cfg.Process.key()
	if err != nil {
		return 0, err
	}
	target, err := to.cfg.Process.key()
	if err != nil {
		return 0, err
	}
	err = l.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		for _, table := range []string{"journal_executions", "journal_background"} {
			if _, err := tx.ExecContext(ctx, "UPDATE "+table+" SET process = ''"); err != nil {
				return err
			}
		}
		ids, err := l.executions(ctx, tx)
		for _, id := range ids {
			if err != nil {
				return err
			}
			var r rekeying
			if r.from, err = newBox(from, l.cfg.Tenant.String(), id); err != nil {
				return err
			}
			if r.to, err = newBox(target, to.cfg.Tenant.String(), id); err != nil {
				return err
			}
			if err = r.execution(ctx, tx, id); err == nil {
				err = r.background(ctx, tx, id)
			}
			if r.damaged {
				damaged++
			}
		}
		return err
	})
	return damaged, err
}

// executions returns the ids of the records that have content.
func (l *Log) executions(ctx context.Context, tx *store.Tx) (ids []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT execution FROM journal_executions WHERE length(request) > 0 UNION SELECT execution FROM journal_background UNION SELECT execution FROM journal_signals")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// rekeying encrypts one record with another key.
type rekeying struct {
	from, to box
	damaged  bool
}

// again returns a ciphertext with the other key. A damaged one is not changed.
func (r *rekeying) again(what string, number int, ciphertext []byte) []byte {
	if ciphertext == nil {
		return nil
	}
	text, err := r.from.decrypt(what, number, ciphertext)
	if err != nil {
		r.damaged = true
		return ciphertext
	}
	return r.to.encrypt(what, number, text)
}

func (r *rekeying) execution(ctx context.Context, tx *store.Tx, id string) error {
	var request []byte
	if err := tx.QueryRowContext(ctx, "SELECT request FROM journal_executions WHERE execution = ?", id).Scan(&request); errors.Is(err, sql.ErrNoRows) || err == nil && len(request) == 0 { // a background execution without a record
		return nil
	} else if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE journal_executions SET request = ? WHERE execution = ?", r.again(ofRequest, 0, request), id); err != nil {
		return err
	}
	numbers, err := hostCallNumbers(ctx, tx, id)
	for _, n := range numbers {
		if err != nil {
			return err
		}
		var args, answer []byte
		err = tx.QueryRowContext(ctx, "SELECT arguments, answer FROM journal_host_calls WHERE execution = ? AND number = ?", id, n).Scan(&args, &answer)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE journal_host_calls SET arguments = ?, answer = ? WHERE execution = ? AND number = ?",
			r.again(ofArguments, n, args), r.again(ofAnswer, n, answer), id, n)
	}
	return err
}

func hostCallNumbers(ctx context.Context, tx *store.Tx, id string) (all []int, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT number FROM journal_host_calls WHERE execution = ?", id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, rows.Err()
}

// background encrypts the background execution with this id, and the signals for it.
func (r *rekeying) background(ctx context.Context, tx *store.Tx, id string) error {
	var request, live, result []byte
	err := tx.QueryRowContext(ctx, "SELECT request, live, result FROM journal_background WHERE execution = ?", id).Scan(&request, &live, &result)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE journal_background SET request = ?, live = ?, result = ? WHERE execution = ?",
			r.again(ofTask, 0, request), r.again(ofLive, 0, live), r.again(ofResult, 0, result), id)
		if err != nil {
			return err
		}
	}
	values, err := signalsOf(ctx, tx, id)
	for number, value := range values {
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE journal_signals SET value = ? WHERE number = ?", r.again(ofSignal, number, value), number)
		}
	}
	return err
}

// signalsOf returns the encrypted values of the signals for an execution, by number.
func signalsOf(ctx context.Context, tx *store.Tx, id string) (map[int][]byte, error) {
	rows, err := tx.QueryContext(ctx, "SELECT number, value FROM journal_signals WHERE execution = ?", id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	values := map[int][]byte{}
	for rows.Next() {
		var number int
		var value []byte
		if err := rows.Scan(&number, &value); err != nil {
			return nil, err
		}
		values[number] = value
	}
	return values, rows.Err()
}
