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
	k, found, err := v.records.read(ctx, func(tx *store.Tx) ([]record, error) { return v.records.findDisclosed(ctx, tx, session, missing) })
	if err != nil {
		return nil, err
	}
	entries := v.records.decryptAll(k, found)
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

// restoreCached returns the values that are in the cache, and the other tokens without
// duplicates.
func (v *Vault) restoreCached(ctx context.Context, session string, tokens []Token) (values map[Token]Value, missing []Token, err error) {
	if _, err := v.ring.currentMaster(); err != nil {
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

// Disclosed reports which of the tokens Restore would return for the session, without
// decrypting them.
func (v *Vault) Disclosed(ctx context.Context, session string, tokens []Token) (map[Token]bool, error) {
	values, missing, err := v.restoreCached(ctx, session, tokens)
	if err != nil {
		return nil, err
	}
	disclosed := make(map[Token]bool, len(tokens))
	for t := range values {
		disclosed[t] = true
	}
	if len(missing) == 0 {
		return disclosed, nil
	}
	err = v.db.View(ctx, func(tx *store.Tx) error {
		found, err := v.records.findDisclosed(ctx, tx, session, missing)
		for _, r := range found {
			disclosed[r.token] = true
		}
		return err
	})
	return disclosed, err
}

// Each calls f with the values that have not expired, in the order of their creation,
// starting after the given record; 0 starts with the first. It returns the last record
// that was read, for the next call. f may use the vault.
func (v *Vault) Each(ctx context.Context, after int64, f func(Value)) (last int64, err error) {
	return v.records.each(ctx, after, f)
}
