package vault

import (
	"bytes"
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// NewKeyMaster returns a Master with a key of 32 bytes that is in memory, for the copy of a
// vault in an export.
func NewKeyMaster(key []byte) Master { return keyMaster(bytes.Clone(key)) }

type keyMaster []byte

func (m keyMaster) ID() string { return "export" }

func (m keyMaster) Wrap(_ context.Context, key, additionalData []byte) ([]byte, error) {
	return wrapWith(m, key, additionalData)
}

func (m keyMaster) Unwrap(_ context.Context, wrapped, additionalData []byte) ([]byte, error) {
	if _, err := wrappedBy(wrapped); err != nil {
		return nil, err
	}
	return unwrapWith(m, wrapped, additionalData)
}

// Rekey makes the database of v one of the vault to, which has the same database, and another
// master or tenant. Tokens do not change. Nothing else may use the database, and one in which
// Rekey failed is not usable. It returns the number of damaged records, which remain damaged.
func (v *Vault) Rekey(ctx context.Context, to *Vault) (damaged int, err error) {
	rows, err := v.ring.stored(ctx)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	from, err := v.ring.currentMaster()
	if err != nil {
		return 0, err
	}
	target, err := to.ring.currentMaster()
	if err != nil {
		return 0, err
	}
	k, err := v.ring.unwrap(ctx, from, rows)
	if err != nil {
		return 0, err
	}
	rewrapped, err := v.ring.rewrap(ctx, from, rows, target, to.ring)
	if err != nil {
		return 0, err
	}
	if v.cfg.Tenant != to.cfg.Tenant {
		if damaged, err = rebind(ctx, v.records, to.records, k); err != nil {
			return damaged, err
		}
	}
	return damaged, v.db.update(ctx, func(tx *store.Tx) error { return replaceKeys(ctx, tx, rows, rewrapped) })
}

// rebind encrypts all records for another tenant, with the same data keys.
func rebind(ctx context.Context, from, to *records, k *keys) (damaged int, err error) {
	for after, more := int64(0), true; more && err == nil; {
		err = from.db.update(ctx, func(tx *store.Tx) error {
			some, err := list(ctx, tx, "SELECT "+columns+" FROM vault_records WHERE number > ? AND encrypted IS NOT NULL ORDER BY number "+
				"LIMIT ?", after, encryptBatch)
			if more = len(some) > 0; err != nil || !more {
				return err
			}
			after = some[len(some)-1].number
			for _, r := range some {
				aead, ok := k.data[r.key]
				if !ok {
					damaged++
					continue
				}
				plain, err := aead.Open(nil, nil, r.sealed, from.additionalData(r.token))
				if err != nil {
					damaged++
					continue
				}
				if _, err := tx.ExecContext(ctx, "UPDATE vault_records SET encrypted = ? WHERE number = ?",
					aead.Seal(nil, nil, plain, to.additionalData(r.token)), r.number); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return damaged, err
}
