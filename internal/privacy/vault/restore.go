package vault

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Restore returns the values of tokens that were disclosed to the session or to all of
// the tenant; session "" restores every token. Unknown tokens and those with damaged
// records are absent.
func (v *Vault) Restore(ctx context.Context, session string, tokens []Token) (map[Token]Value, error) {
	values, missing, err := v.restoreCached(ctx, session, tokens)
	if err != nil || len(missing) == 0 {
		return values, err
	}
	k, found, err := v.read(ctx, func(tx *store.Tx) ([]record, error) { return v.findDisclosed(ctx, tx, session, missing) })
	if err != nil {
		return nil, err
	}
	entries := v.decryptAll(k, found)
	for _, e := range entries {
		values[e.token] = e.value
	}
	if err := CountGuesses(v, missing, values); err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		v.cache.add(k.epoch, session, entries)
	}
	return values, nil
}

// read runs query together with a check of the keys that decrypt its records.
func (v *Vault) read(ctx context.Context, query func(*store.Tx) ([]record, error)) (with *keys, found []record, err error) {
	err = v.withKeys(ctx, false, func(k *keys) error {
		with = k
		return v.cfg.DB.View(ctx, func(tx *store.Tx) error {
			if err := k.check(ctx, tx); err != nil {
				return err
			}
			found, err = query(tx)
			return err
		})
	})
	return with, found, err
}

// restoreCached returns the values that are in the cache, and the other tokens without
// duplicates.
func (v *Vault) restoreCached(ctx context.Context, session string, tokens []Token) (values map[Token]Value, missing []Token, err error) {
	if _, err := v.master(); err != nil {
		return nil, nil, err
	}
	if err := v.checkEpoch(ctx); err != nil {
		return nil, nil, err
	}
	now := v.cfg.Now()
	values = make(map[Token]Value, len(tokens))
	seen := make(map[Token]bool)
	v.cache.mu.Lock()
	defer v.cache.mu.Unlock()
	for _, t := range tokens {
		if e := v.cache.token(t); e != nil && v.cache.mayRestore(e, session) && !isPast(e.expires, now) {
			values[t] = e.value
		} else if _, _, ok := t.parts(); ok && !seen[t] {
			seen[t] = true
			missing = append(missing, t)
		}
	}
	return values, missing, nil
}

// decryptAll decrypts records and skips damaged ones.
func (v *Vault) decryptAll(k *keys, found []record) (entries []*entry) {
	for _, r := range found {
		value, err := v.decrypt(k, r)
		if err != nil {
			v.cfg.Log.Warn("cannot decrypt a vault record", "type", string(r.token.Type()), "record", r.number, "error", err)
			continue
		}
		entries = append(entries, &entry{record: r.number, token: r.token, value: value, expires: r.expires, everywhere: r.everywhere})
	}
	return entries
}

// Disclosed reports which of the tokens Restore would return for the session, without
// decrypting them.
func (v *Vault) Disclosed(ctx context.Context, session string, tokens []Token) (map[Token]bool, error) {
	values, missing, err := v.restoreCached(ctx, session, tokens)
	if err != nil {
		return nil, err
	}
	good := make(map[Token]bool, len(tokens))
	for t := range values {
		good[t] = true
	}
	if len(missing) == 0 {
		return good, nil
	}
	err = v.cfg.DB.View(ctx, func(tx *store.Tx) error {
		found, err := v.findDisclosed(ctx, tx, session, missing)
		for _, r := range found {
			good[r.token] = true
		}
		return err
	})
	return good, err
}

// page is the number of records read per transaction.
const page = 1000

// Each calls f with the values that have not expired, in the order of their creation,
// starting after the given record; 0 starts with the first. It returns the last record
// that was read, for the next call. f may use the vault.
func (v *Vault) Each(ctx context.Context, after int64, f func(Value)) (last int64, err error) {
	return v.pages(ctx, after, func(entries []*entry) error {
		for _, e := range entries {
			f(e.value)
		}
		return nil
	})
}

// pages calls f with the records after the given one, one page at a time, and returns
// the last record that was read.
func (v *Vault) pages(ctx context.Context, after int64, f func([]*entry) error) (last int64, err error) {
	if _, err := v.master(); err != nil {
		return after, err
	}
	for {
		k, records, err := v.read(ctx, func(tx *store.Tx) ([]record, error) { return v.page(ctx, tx, after) })
		if err != nil || len(records) == 0 {
			return after, err
		}
		if err := f(v.decryptAll(k, records)); err != nil {
			return after, err
		}
		after = records[len(records)-1].number
	}
}

func (v *Vault) page(ctx context.Context, tx *store.Tx, after int64) ([]record, error) {
	return list(ctx, tx, "SELECT "+columns+` FROM vault_records
		WHERE number > ? AND encrypted IS NOT NULL AND (expires IS NULL OR expires > ?) ORDER BY number LIMIT ?`, after, v.cfg.Now().UnixMilli(), page)
}
