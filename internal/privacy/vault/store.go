package vault

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// commitSize is the number of values per transaction, which blocks other writers.
const commitSize = 5000

// store writes values to the database and returns their tokens.
func (v *Vault) store(ctx context.Context, session string, values []Value) (map[Value]Token, error) {
	tokens := make(map[Value]Token, len(values))
	for some := range slices.Chunk(values, commitSize) {
		err := v.ring.with(ctx, true, func(k *keys) error { return v.storeBatch(ctx, k, session, some, tokens) })
		if err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// storeBatch stores values in one transaction and adds their tokens to tokens.
func (v *Vault) storeBatch(ctx context.Context, k *keys, session string, values []Value, tokens map[Value]Token) error {
	drafts := make([]draft, len(values))
	for i, value := range values {
		drafts[i] = k.draft(value)
	}
	b := &batch{v: v, k: k, session: session, now: v.cfg.Now(), tokens: tokens}
	if err := v.db.update(ctx, func(tx *store.Tx) error { return b.store(ctx, tx, drafts) }); err != nil {
		return err
	}
	if v.cfg.OnNewTokens != nil && b.created > 0 {
		v.cfg.OnNewTokens(b.created)
	}
	v.cache.add(k.epoch, session, b.entries)
	v.reportRedacted(b)
	return nil
}

// batch is one transaction that stores values.
type batch struct {
	v       *Vault
	k       *keys
	session string
	now     time.Time

	counts  counts
	tokens  map[Value]Token
	entries []*entry
	limit   string // the limit because of which a value was redacted
	changed bool   // counts must be written
	created int    // new records
}

func (b *batch) store(ctx context.Context, tx *store.Tx, drafts []draft) (err error) {
	if err := b.k.check(ctx, tx); err != nil {
		return err
	}
	if b.counts, err = readCounts(ctx, tx, b.now); err != nil {
		return err
	}
	for _, d := range drafts {
		if err := b.storeOne(ctx, tx, d); err != nil {
			return err
		}
	}
	if !b.changed {
		return nil
	}
	return b.counts.write(ctx, tx)
}

// storeOne discloses the record of a value, or creates one, or redacts the value.
func (b *batch) storeOne(ctx context.Context, tx *store.Tx, d draft) error {
	if r, err := findLong(ctx, tx, d); err != nil {
		return err
	} else if r.sealed != nil && !r.hasExpired(b.now) {
		return b.disclose(ctx, tx, d, r)
	}
	for id := range d.ids {
		r, err := find(ctx, tx, token(d.value.Type, id))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return b.insert(ctx, tx, d, id)
		case err != nil:
			return err
		case string(r.mark) != string(d.mark):
			continue // id of another surface
		case r.hasExpired(b.now):
			return b.revive(ctx, tx, d, id, r)
		}
		return b.disclose(ctx, tx, d, r)
	}
	return fault.New(fault.Internal, "vault: all ids of a value are in use")
}

// insert creates a record, unless a limit is reached.
func (b *batch) insert(ctx context.Context, tx *store.Tx, d draft, id string) error {
	if bound := b.exceededLimit(b.session); bound != "" {
		b.redact(d, bound)
		return nil
	}
	b.changed = true
	b.created++
	e := &entry{token: token(d.value.Type, id), value: d.value, expires: b.v.lifetimes.expiry(d.value.Type, b.now),
		everywhere: b.session == ""}
	sealed, err := b.v.records.encrypt(b.k, e.token, d.value)
	if err != nil {
		return err
	}
	r, err := tx.ExecContext(ctx, "INSERT INTO vault_records (type, id, mark, key, encrypted, expires, everywhere) VALUES (?, ?, ?, ?, "+
		"?, nullif(?, 0), ?)",
		string(d.value.Type), id, d.mark, b.k.current, sealed, e.expires, e.everywhere)
	if err != nil {
		return err
	}
	if e.record, err = r.LastInsertId(); err != nil {
		return err
	}
	b.counts.add(countRecords, 1)
	b.counts.add(countNew, 1)
	if b.session != "" {
		if err := b.insertDisclosure(ctx, tx, e.record); err != nil {
			return err
		}
	}
	b.stored(e)
	return nil
}

// revive replaces an expired record by a new one with the same id. Its number is new,
// so that Each returns it to readers that have passed the old one.
func (b *batch) revive(ctx context.Context, tx *store.Tx, d draft, id string, r record) error {
	if bound := b.exceededLimit(b.session); bound != "" {
		b.redact(d, bound)
		return nil
	}
	if err := erase(ctx, tx, r, b.counts); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM vault_records WHERE number = ?", r.number); err != nil {
		return err
	}
	return b.insert(ctx, tx, d, id)
}

// disclose records that an existing record is disclosed to the session.
func (b *batch) disclose(ctx context.Context, tx *store.Tx, d draft, r record) error {
	e := &entry{record: r.number, token: r.token, value: d.value, expires: r.expires, everywhere: r.everywhere || b.session == ""}
	if b.v.lifetimes.needNewExpiry(d.value.Type, r.expires, b.now) {
		e.expires = b.v.lifetimes.expiry(d.value.Type, b.now)
	}
	if e.expires != r.expires || e.everywhere != r.everywhere {
		_, err := tx.ExecContext(ctx, "UPDATE vault_records SET expires = nullif(?, 0), everywhere = ? WHERE number = ?", e.expires,
			e.everywhere, r.number)
		if err != nil {
			return err
		}
	}
	if e.everywhere {
		b.stored(e)
		return nil
	}
	disclosed, err := isDisclosed(ctx, tx, r, b.session)
	if err == nil && !disclosed {
		if bound := b.exceededDisclosures(); bound != "" {
			b.redact(d, bound)
			return nil
		}
		err = b.insertDisclosure(ctx, tx, r.number)
	}
	if err == nil {
		b.stored(e)
	}
	return err
}

func (b *batch) insertDisclosure(ctx context.Context, tx *store.Tx, record int64) error {
	b.counts.add(countDisclosed, 1)
	b.changed = true
	_, err := tx.ExecContext(ctx, "INSERT INTO vault_disclosures (record, session) VALUES (?, ?)", record, b.session)
	return err
}

func (b *batch) stored(e *entry) {
	b.tokens[e.value] = e.token
	b.entries = append(b.entries, e)
}

func (b *batch) redact(d draft, bound string) {
	b.tokens[d.value], b.limit = RedactedToken(d.value.Type), bound
}
