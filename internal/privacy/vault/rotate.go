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
	k, err := v.ring.addDataKey(ctx)
	if err != nil || k == nil {
		return err
	}
	for after, more := int64(0), true; more; {
		err := v.db.update(ctx, func(tx *store.Tx) (err error) {
			after, more, err = v.records.reencrypt(ctx, tx, k, after)
			return err
		})
		if err == nil {
			err = pause(ctx)
		}
		if err != nil {
			return rotationError(err)
		}
	}
	if err := v.db.update(ctx, func(tx *store.Tx) error { return dropKeys(ctx, tx, k) }); err != nil {
		return rotationError(err)
	}
	return v.db.Compact(ctx)
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

// addDataKey adds a data key, which all processes use from then on, and returns the
// keys including it; nil if the vault has none yet.
func (r *keyRing) addDataKey(ctx context.Context) (*keys, error) {
	var added *keys
	err := r.with(ctx, false, func(k *keys) error {
		m, err := r.currentMaster()
		if err != nil {
			return err
		}
		w, err := r.newKey(ctx, m, useData)
		if err != nil {
			return err
		}
		err = r.db.update(ctx, func(tx *store.Tx) error {
			if err := k.check(ctx, tx); err != nil {
				return err
			}
			return w.insert(ctx, tx)
		})
		if err != nil {
			return err
		}
		r.drop(k)
		added, err = r.open(ctx, false)
		return err
	})
	return added, err
}

// encryptBatch is the number of records re-encrypted per transaction.
const encryptBatch = 500

// reencrypt encrypts some of the records after the given one with the current key.
// Damaged records are left as they are.
func (s *records) reencrypt(ctx context.Context, tx *store.Tx, k *keys, after int64) (last int64, more bool, err error) {
	if err := k.check(ctx, tx); err != nil {
		return after, false, err
	}
	old, err := list(ctx, tx, "SELECT "+columns+` FROM vault_records
		WHERE number > ? AND key <> ? AND encrypted IS NOT NULL ORDER BY number LIMIT ?`, after, k.current, encryptBatch)
	if err != nil || len(old) == 0 {
		return after, false, err
	}
	for _, e := range s.decryptAll(k, old) {
		sealed, err := s.encrypt(k, e.token, e.value)
		if err != nil {
			return after, false, err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE vault_records SET key = ?, encrypted = ? WHERE number = ?", k.current, sealed,
			e.record); err != nil {
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
	from, err := v.ring.currentMaster()
	if err != nil {
		return err
	}
	rows, err := v.ring.stored(ctx)
	if err != nil {
		return err
	}
	rewrapped, err := v.ring.rewrap(ctx, from, rows, to, v.ring)
	if err != nil {
		return err
	}
	if err := v.db.update(ctx, func(tx *store.Tx) error { return replaceKeys(ctx, tx, rows, rewrapped) }); err != nil {
		return rotationError(err)
	}
	v.ring.setMaster(to)
	if len(rows) == 0 {
		return nil
	}
	return v.db.Compact(ctx)
}

// rewrap returns keys wrapped by another master, for the tenant of another key ring.
func (r *keyRing) rewrap(ctx context.Context, from Master, rows []wrapped, to Master, target *keyRing) ([]wrapped, error) {
	all := make([]wrapped, len(rows))
	for i, w := range rows {
		key, err := r.unwrapOne(ctx, from, w)
		if err != nil {
			return nil, err
		}
		w.master = to.ID()
		if w.key, err = to.Wrap(ctx, key, target.additionalData(w.use)); err != nil {
			return nil, err
		}
		all[i] = w
	}
	return all, nil
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
		if _, err := tx.ExecContext(ctx, "UPDATE vault_keys SET master = ?, wrapped = ? WHERE number = ?", w.master, w.key,
			w.number); err != nil {
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
	err := v.db.update(ctx, func(tx *store.Tx) error {
		for _, statement := range []string{
			"DELETE FROM vault_keys", "DELETE FROM vault_exceptions WHERE mark IS NOT NULL", "DELETE FROM vault_disclosures",
			"DELETE FROM vault_records",
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
	if err := v.db.Compact(ctx); err != nil {
		return fault.Wrap(fault.KindOf(err), err, "the vault is shredded, but the database file may still contain deleted data").
			WithHint("shred it again")
	}
	return nil
}
