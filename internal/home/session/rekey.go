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
	err = l.steps.View(ctx, func(tx *store.Tx) error {
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
	}
	if err != nil {
		return 0, err
	}
	err = l.steps.Update(ctx, func(tx *store.Tx) error {
		damaged, err = l.cipher.Rekey(ctx, tx, to.cipher.Cipher, ofTask, ofRecord, ofCheckpoint)
		for _, id := range ids {
			if err == nil {
				r := rekeying{from: l.cipher, to: to.cipher, session: id}
				err = r.files(ctx, tx)
				damaged += r.damaged
			}
		}
		return err
	})
	return damaged, err
}

// rekeying encrypts the paths of one session with another key.
type rekeying struct {
	from, to cipher
	session  string
	damaged  int
}

// files replaces the rows of the files, whose keyed hashes change too.
func (r *rekeying) files(ctx context.Context, tx *store.Tx) error {
	var paths [][]byte
	err := each(ctx, tx, "SELECT encrypted FROM session_files WHERE session = ?", []any{r.session}, func(row scanner) error {
		var encrypted, path []byte
		if err := row.Scan(&encrypted); err != nil {
			return err
		}
		if r.from.decrypt(ofFile, encrypted, &path, r.session) != nil {
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
		encrypted, err := r.to.encrypt(ofFile, path, r.session)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO session_files (session, path_mac, encrypted) VALUES (?, ?, ?)", r.session,
			r.to.mac(r.session, string(path)), encrypted); err != nil {
			return err
		}
	}
	return nil
}
