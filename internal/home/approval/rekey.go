package approval

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Rekey encrypts the texts of s for the store to, which has the same database, and another key or
// tenant. It returns the number of damaged requests, which remain damaged.
func (s *Store) Rekey(ctx context.Context, to *Store) (damaged int, err error) {
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		ids, err := s.ids(ctx, tx)
		for _, id := range ids {
			if err != nil {
				return err
			}
			var ok bool
			if ok, err = s.rekeyOne(ctx, tx, to, id); !ok {
				damaged++
			}
		}
		return err
	})
	return damaged, err
}

func (s *Store) ids(ctx context.Context, tx *store.Tx) (ids []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT id FROM approvals")
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

// rekeyOne reports whether the request is not damaged.
func (s *Store) rekeyOne(ctx context.Context, tx *store.Tx, to *Store, id string) (ok bool, err error) {
	var shown, note []byte
	if err := tx.QueryRowContext(ctx, "SELECT shown, note FROM approvals WHERE id = ?", id).Scan(&shown, &note); err != nil {
		return true, err
	}
	if shown, err = s.decrypt(id, "shown", shown); err != nil {
		return false, nil
	}
	shown = to.encrypt(id, "shown", shown)
	if note != nil {
		if note, err = s.decrypt(id, "note", note); err != nil {
			return false, nil
		}
		note = to.encrypt(id, "note", note)
	}
	_, err = tx.ExecContext(ctx, "UPDATE approvals SET shown = ?, note = ? WHERE id = ?", shown, note, id)
	return true, err
}
