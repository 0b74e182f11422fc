package session

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Rekey encrypts the sessions of l for the log to, which has the same database and another key. It
// returns the number of damaged steps and checkpoints, which remain damaged. A session whose
// id is not valid is an error.
func (l *Log) Rekey(ctx context.Context, to *Log) (damaged int, err error) {
	var ids []string
	err = l.cfg.DB.View(ctx, func(tx *store.Tx) error {
		return each(ctx, tx, "SELECT id FROM sessions", nil, func(r scanner) error {
			var id string
			err := r.Scan(&id)
			ids = append(ids, id)
			return err
		})
	})
	for _, id := range ids {
		if err == nil {
			err = CheckID(id) // the projection has a file of that name
		}
		if err != nil {
			return damaged, err
		}
		r := rekeying{from: l.box, to: to.box, session: id}
		err = l.cfg.DB.Update(ctx, func(tx *store.Tx) error { return r.run(ctx, tx) })
		damaged += r.damaged
	}
	return damaged, err
}

// rekeying encrypts one session with another key.
type rekeying struct {
	from, to box
	session  string
	damaged  int
}

// again returns a ciphertext with the other key. A damaged one is not changed.
func (r *rekeying) again(kind string, number int, ciphertext []byte) []byte {
	if ciphertext == nil {
		return nil
	}
	bound := additionalData(kind, r.session, number)
	text, err := r.from.Open(nil, nil, ciphertext, bound)
	if err != nil {
		r.damaged++
		return ciphertext
	}
	return r.to.Seal(nil, nil, text, bound)
}

func (r *rekeying) run(ctx context.Context, tx *store.Tx) error {
	var checkpoint []byte
	if err := tx.QueryRowContext(ctx, "SELECT checkpoint FROM sessions WHERE id = ?", r.session).Scan(&checkpoint); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE sessions SET checkpoint = ? WHERE id = ?", r.again(kindCheckpoint, 0, checkpoint), r.session); err != nil {
		return err
	}
	numbers, err := stepNumbers(ctx, tx, r.session)
	for _, n := range numbers {
		if err != nil {
			return err
		}
		var encrypted, record []byte
		if err = tx.QueryRowContext(ctx, "SELECT encrypted, record FROM session_tasks WHERE session = ? AND number = ?", r.session, n).Scan(&encrypted, &record); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE session_tasks SET encrypted = ?, record = ? WHERE session = ? AND number = ?",
			r.again(kindTask, n, encrypted), r.again(kindRecord, n, record), r.session, n)
	}
	if err != nil {
		return err
	}
	return r.files(ctx, tx)
}

// files replaces the rows of the files, whose keyed hashes change too.
func (r *rekeying) files(ctx context.Context, tx *store.Tx) error {
	var paths [][]byte
	err := each(ctx, tx, "SELECT encrypted FROM session_files WHERE session = ?", []any{r.session}, func(row scanner) error {
		var encrypted, path []byte
		if err := row.Scan(&encrypted); err != nil {
			return err
		}
		if r.from.decrypt(kindFile, r.session, 0, encrypted, &path) != nil {
			r.damaged++
			return nil
		}
		paths = append(paths, path)
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM session_files WHERE session = ?", r.session); err != nil {
		return err
	}
	for _, path := range paths {
		encrypted, err := r.to.encrypt(kindFile, r.session, 0, path)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO session_files (session, path_mac, encrypted) VALUES (?, ?, ?)", r.session, r.to.mac(r.session, string(path)), encrypted); err != nil {
			return err
		}
	}
	return nil
}
