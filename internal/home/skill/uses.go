package skill

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// AddUses counts an execution that imported the named skills. Names without a skill are ignored.
func (s *Store) AddUses(ctx context.Context, names []string, success bool) error {
	good := 0
	if success {
		good = 1
	}
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		for _, name := range names {
			_, err := tx.ExecContext(ctx, `INSERT INTO skill_uses SELECT ?1, 1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM skills WHERE name = ?1)
				ON CONFLICT (name) DO UPDATE SET uses = uses + 1, successes = successes + ?2, last = ?3`, name, good, time.Now().UnixMilli())
			if err != nil {
				return err
			}
		}
		return nil
	})
}
