package vault

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Rotate creates a new data key, re-encrypts all records with it and deletes the old
// key. Tokens stay the same, and others may use the vault during the rotation. If it
// is interrupted nothing is lost, and the next Rotate completes it.
func (v *Vault) Rotate(ctx context.Context) error {
	k, err := v.newDataKey(ctx)
	if err != nil || k == nil {
		return err
	}
	for after, more := int64(0), true; more; {
		err := v.update(ctx, func(tx *store.Tx) (err error) {
			after, more, err = v.reencrypt(ctx, tx, k, after)
			return err
		})
		if err == nil {
			err = pause(ctx)
		}
		if err != nil {
			return rotationError(err)
		}
	}
	if err := v.update(ctx, func(tx *store.Tx) error { return dropKeys(ctx, tx, k) }); err != nil {
		return rotationError(err)
	}
	return v.cfg.DB.Compact(ctx)
}

// pause lets others write: SQLite gives its lock to the first that asks, and waiting
// writers sleep.
func pause(ctx context.Context) error {
	select {
	case <-time.After(20 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func rotationError(err error) error {
	if errors.Is(err, errStale) {
		return fault.Wrap(fault.Unavailable, err, "the vault keys were changed by another process during the rotation; nothing is lost")
	}
	return err
}

// newDataKey adds a data key, which all processes use from then on, and returns the
// keys including it; nil if the vault has none yet.
func (v *Vault) newDataKey(ctx context.Context) (*keys, error) {
	var added *keys
	err := v.withKeys(ctx, false, func(k *keys) error {
		m, err := v.master()
		if err != nil {
			return err
		}
		w, err := v.newKey(ctx, m, useData)
		if err != nil {
			return err
		}
		err = v.update(ctx, func(tx *store.Tx) error {
			if err := k.check(ctx, tx); err != nil {
				return err
			}
			return w.insert(ctx, tx)
		})
		if err != nil {
			return err
		}
		v.keyRing.drop(k)
		added, err = v.keys(ctx, false)
		return err
	})
	return added, err
}

// encryptBatch is the number of records re-encrypted per transaction.
const encryptBatch = 500

// reencrypt encrypts some of the records after the given one with the current key.
// Damaged records are left as they are.
func (v *Vault) reencrypt(ctx context.Context, tx *store.Tx, k *keys, after int64) (last int64, more bool, err error) {
	if err := k.check(ctx, tx); err != nil {
		return after, false, err
	}
	old, err := list(ctx, tx, "SELECT "+columns+` FROM vault_records
		WHERE number > ? AND key <> ? AND encrypted IS NOT NULL ORDER BY number LIMIT ?`, after, k.current, encryptBatch)
	if err != nil || len(old) == 0 {
		return after, false, err
	}
	for _, e := range v.decryptAll(k, old) {
		sealed, err := v.encrypt(k, e.token, e.value)
		if err != nil {
			return after, false, err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE vault_records SET key = ?, encrypted = ? WHERE number = ?", k.current, sealed, e.record); err != nil {
			return after, false, err
		}
	}
	return old[len(old)-1].number, true, nil
}

// dropKeys deletes the data keys that no record uses.
func dropKeys(ctx context.Context, tx *store.Tx, k *keys) error {
	if err := k.check(ctx, tx); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM vault_keys WHERE use = 'data' AND number < ?
		AND number NOT IN (SELECT key FROM vault_records WHERE encrypted IS NOT NULL)`, k.current)
	return err
}

// Rewrap wraps the tenant's keys with another master in one transaction and uses that
// master from now on. Records do not change. Later Vaults must be configured with that
// master.
func (v *Vault) Rewrap(ctx context.Context, to Master) error {
	from, err := v.master()
	if err != nil {
		return err
	}
	rows, err := v.wrappedKeys(ctx)
	if err != nil {
		return err
	}
	again := make([]wrapped, len(rows))
	for i, w := range rows {
		if again[i], err = v.rewrapOne(ctx, from, to, w); err != nil {
			return err
		}
	}
	if err := v.update(ctx, func(tx *store.Tx) error { return replaceKeys(ctx, tx, rows, again) }); err != nil {
		return rotationError(err)
	}
	v.keyRing.mu.Lock()
	v.keyRing.master = to
	v.keyRing.mu.Unlock()
	if len(rows) == 0 {
		return nil
	}
	return v.cfg.DB.Compact(ctx)
}

func (v *Vault) rewrapOne(ctx context.Context, from, to Master, w wrapped) (wrapped, error) {
	key, err := v.unwrapOne(ctx, from, w)
	if err != nil {
		return w, err
	}
	w.master = to.ID()
	w.key, err = to.Wrap(ctx, key, v.keyAAD(w.use))
	return w, err
}

// replaceKeys replaces keys, if they have not changed since they were read.
func replaceKeys(ctx context.Context, tx *store.Tx, before, after []wrapped) error {
	now, err := readKeys(ctx, tx)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(now, before, wrapped.equal) {
		return errStale
	}
	for _, w := range after {
		if _, err := tx.ExecContext(ctx, "UPDATE vault_keys SET master = ?, wrapped = ? WHERE number = ?", w.master, w.key, w.number); err != nil {
			return err
		}
	}
	return nil
}

func (w wrapped) equal(o wrapped) bool {
	return w.number == o.number && w.master == o.master && bytes.Equal(w.key, o.key)
}

// Shred deletes the tenant's keys and all records, and compacts the file so that no
// copy of either remains in it. A vault whose keys are lost can be shredded too. The
// next value creates new keys. Copies that were made earlier, together with the master
// key, are not affected.
func (v *Vault) Shred(ctx context.Context) error {
	err := v.update(ctx, func(tx *store.Tx) error {
		for _, statement := range []string{
			"DELETE FROM vault_keys", "DELETE FROM vault_exceptions WHERE mark IS NOT NULL", "DELETE FROM vault_disclosures", "DELETE FROM vault_records",
			"DELETE FROM vault_counts WHERE name IN ('records', 'disclosed')",
		} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	v.clear()
	if err := v.cfg.DB.Compact(ctx); err != nil {
		return fault.Wrap(fault.KindOf(err), err, "the vault is shredded, but the database file may still contain deleted data").
			WithHint("shred it again")
	}
	return nil
}
