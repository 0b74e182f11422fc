package vault

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// TokenizeLong stores a value as earlier versions did, with the shortest or, if it is taken, the
// next long id.
func TokenizeLong(ctx context.Context, v *Vault, session string, value Value) (Token, error) {
	tokens := map[Value]Token{}
	err := v.ring.with(ctx, true, func(k *keys) error {
		d := k.draft(value)
		b := &batch{v: v, k: k, session: session, now: v.cfg.Now(), tokens: tokens}
		return v.db.update(ctx, func(tx *store.Tx) (err error) {
			if b.counts, err = readCounts(ctx, tx, b.now); err != nil {
				return err
			}
			for id := range d.longIDs {
				if _, err := find(ctx, tx, token(value.Type, id)); err == nil {
					continue
				}
				if err := b.insert(ctx, tx, d, id); err != nil {
					return err
				}
				return b.counts.write(ctx, tx)
			}
			return nil
		})
	})
	return tokens[value], err
}
