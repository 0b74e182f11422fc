package approval

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Rekey encrypts the texts of s for the store to, which has the same database, and another key or
// tenant. It returns the number of damaged texts, which remain damaged. Grants are deleted: a data
// directory must not allow calls because of an archive from elsewhere.
func (s *Store) Rekey(ctx context.Context, to *Store) (damaged int, err error) {
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		if err := grant.Clear(ctx, tx); err != nil {
			return err
		}
		damaged, err = s.cipher.Rekey(ctx, tx, to.cipher, ofShown, ofNote, ofOrigin)
		return err
	})
	return damaged, err
}
