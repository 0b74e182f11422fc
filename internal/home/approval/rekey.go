package approval

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Rekey encrypts the texts of s for the store to, which has the same database, and another key or
// tenant. It returns the number of damaged requests, which remain damaged. Grants are deleted: a data
// directory must not allow calls because an archive from elsewhere says so.
func (s *Store) Rekey(ctx context.Context, to *Store) (damaged int, err error) {
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		if err := grant.Clear(ctx, tx); err != nil {
			return err
		}
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
	var shown, note, origin []byte
	if err := tx.QueryRowContext(ctx, "SELECT shown, note, origin FROM approvals WHERE id = ?", id).Scan(&shown, &note, &origin); err != nil {
		return true, err
	}
	for part, text := range map[string]*[]byte{"shown": &shown, "note": &note, "origin": &origin} {
		if *text == nil {
			continue
		}
		clear, err := s.decrypt(id, part, *text)
		if err != nil {
			return false, nil
		}
		*text = to.encrypt(id, part, clear)
	}
	_, err = tx.ExecContext(ctx, "UPDATE approvals SET shown = ?, note = ?, origin = ? WHERE id = ?", shown, note, origin, id)
	return true, err
}
