package vault

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// checkEpoch clears keys and values if another process has shredded the vault.
func (v *Vault) checkEpoch(ctx context.Context) error {
	now := v.cfg.Now()
	was := v.cache.epochToCheck(now)
	if was == 0 {
		return nil
	}
	var epoch int64
	err := v.db.View(ctx, func(tx *store.Tx) (err error) {
		epoch, _, err = newestKeys(ctx, tx)
		return err
	})
	switch {
	case err != nil:
		return err
	case epoch != was:
		v.clear()
	default:
		v.cache.setEpoch(epoch, now)
	}
	return nil
}

// clear removes keys and values from memory.
func (v *Vault) clear() {
	v.Index.clear()
	v.cache.setEpoch(0, time.Time{})
	v.ring.drop(v.ring.get())
}
