package vault

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

const (
	sweepEvery = 10 * time.Minute
	sweepBatch = 500
)

// Sweep erases expired values, at most every ten minutes. Expired values are not
// restored before that either.
func (v *Vault) Sweep(ctx context.Context) error {
	now := v.cfg.Now()
	if !v.sweeps.begin(now, sweepEvery) {
		return nil
	}
	for {
		var erased int
		err := v.db.update(ctx, func(tx *store.Tx) (err error) {
			erased, err = eraseExpired(ctx, tx, now, v.cfg.MaxRecords)
			return err
		})
		if err != nil || erased < sweepBatch {
			return err
		}
	}
}

// eraseExpired erases some of the expired values. Of the rows that only reserve an id it
// keeps the newest ones.
func eraseExpired(ctx context.Context, tx *store.Tx, now time.Time, kept int) (erased int, err error) {
	expired, err := list(ctx, tx, "SELECT "+columns+` FROM vault_records
		WHERE encrypted IS NOT NULL AND expires IS NOT NULL AND expires <= ? ORDER BY expires LIMIT ?`, now.UnixMilli(), sweepBatch)
	if err != nil || len(expired) == 0 {
		return 0, err
	}
	c, err := readCounts(ctx, tx, now)
	if err != nil {
		return 0, err
	}
	for _, r := range expired {
		if err := erase(ctx, tx, r, c); err != nil {
			return 0, err
		}
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM vault_records WHERE number IN
		(SELECT number FROM vault_records WHERE encrypted IS NULL ORDER BY number DESC LIMIT -1 OFFSET ?)`, kept)
	if err == nil {
		err = c.write(ctx, tx)
	}
	return len(expired), err
}

// erase removes the value of a record, if present, and its disclosures.
func erase(ctx context.Context, tx *store.Tx, r record, c counts) error {
	if r.sealed == nil {
		return nil
	}
	gone, err := tx.ExecContext(ctx, "DELETE FROM vault_disclosures WHERE record = ?", r.number)
	if err != nil {
		return err
	}
	n, err := gone.RowsAffected()
	if err != nil {
		return err
	}
	c.add(countDisclosed, -int(n))
	c.add(countRecords, -1)
	_, err = tx.ExecContext(ctx, "UPDATE vault_records SET encrypted = NULL, everywhere = 0 WHERE number = ?", r.number)
	return err
}
