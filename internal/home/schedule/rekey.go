package schedule

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Rekey encrypts the schedules of s for the store to, which has the same database and another key.
// It returns the number of damaged ones, which remain damaged.
func (s *Store) Rekey(ctx context.Context, to *Store) (damaged int, err error) {
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		damaged = 0
		again := map[string][]byte{}
		rows, err := tx.QueryContext(ctx, "SELECT name, spec FROM schedules WHERE spec IS NOT NULL")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			var ciphertext []byte
			if err := rows.Scan(&name, &ciphertext); err != nil {
				return err
			}
			spec, err := s.decrypt(name, ciphertext)
			if err != nil {
				damaged++
				continue
			}
			if again[name], err = to.encrypt(spec); err != nil {
				return err
			}
		}
		for name, ciphertext := range again {
			if _, err := tx.ExecContext(ctx, "UPDATE schedules SET spec = ? WHERE name = ?", ciphertext, name); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	return damaged, err
}
