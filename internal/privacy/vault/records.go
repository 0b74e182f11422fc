package vault

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// record is a row of vault_records.
type record struct {
	number     int64
	token      Token
	mark       []byte
	key        int64
	sealed     []byte // nil if it was erased
	expires    int64  // 0 for never
	everywhere bool
}

// hasExpired reports whether the value has expired, erased or not.
func (r record) hasExpired(now time.Time) bool {
	return r.sealed == nil || isPast(r.expires, now)
}

func isPast(expires int64, now time.Time) bool { return expires != 0 && expires <= now.UnixMilli() }

const columns = "number, type, id, mark, key, encrypted, coalesce(expires, 0), everywhere"

func (r *record) scan(row interface{ Scan(...any) error }) error {
	var typ, id string
	err := row.Scan(&r.number, &typ, &id, &r.mark, &r.key, &r.sealed, &r.expires, &r.everywhere)
	r.token = Token("[" + typ + "_" + id + "]")
	return err
}

// find returns the record of a token, or sql.ErrNoRows.
func find(ctx context.Context, tx *store.Tx, t Token) (r record, err error) {
	typ, id, _ := t.parts()
	err = r.scan(tx.QueryRowContext(ctx, "SELECT "+columns+" FROM vault_records WHERE type = ? AND id = ?", string(typ), id))
	return r, err
}

// findLong returns the record of a value that has one of its long ids, or the zero record.
func findLong(ctx context.Context, tx *store.Tx, d draft) (record, error) {
	for id := range d.longIDs {
		r, err := find(ctx, tx, token(d.value.Type, id))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return record{}, nil
		case err != nil || string(r.mark) == string(d.mark):
			return r, err
		}
	}
	return record{}, nil
}

// list returns the records of a query that selects columns.
func list(ctx context.Context, tx *store.Tx, query string, args ...any) (all []record, err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r record
		if err := r.scan(rows); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// isDisclosed reports whether a record may be restored for a session.
func isDisclosed(ctx context.Context, tx *store.Tx, r record, session string) (ok bool, err error) {
	if r.everywhere || session == "" {
		return true, nil
	}
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM vault_disclosures WHERE record = ? AND session = ?)", r.number, session).
		Scan(&ok)
	return ok, err
}

// Kinds of value: the first byte of the plaintext.
const text, number = 't', 'n'

// records reads and decrypts the records of a tenant.
type records struct {
	db     *database
	ring   *keyRing
	tenant tenant.ID
	now    func() time.Time
	log    *slog.Logger
}

// encrypt encrypts a value for the record of a token.
func (s *records) encrypt(k *keys, t Token, value Value) ([]byte, error) {
	aead, ok := k.data[k.current]
	if !ok {
		return nil, errors.New("there is no data key")
	}
	kind := byte(text)
	if value.Number {
		kind = number
	}
	return aead.Seal(nil, nil, append([]byte{kind}, value.Text...), s.additionalData(t)), nil
}

// errDamaged is returned for a record that cannot be decrypted.
var errDamaged = errors.New("the record is damaged")

// decrypt decrypts a record with the keys that were checked when it was read.
func (s *records) decrypt(k *keys, r record) (Value, error) {
	aead, ok := k.data[r.key]
	if !ok {
		return Value{}, errDamaged
	}
	plain, err := aead.Open(nil, nil, r.sealed, s.additionalData(r.token))
	if err != nil || len(plain) == 0 {
		return Value{}, errDamaged
	}
	return Value{Type: r.token.Type(), Text: string(plain[1:]), Number: plain[0] == number}, nil
}

// additionalData returns the additional data that binds a record to its tenant and token.
func (s *records) additionalData(t Token) []byte {
	typ, id, _ := t.parts()
	return []byte("sandpiper vault record\x00" + s.tenant.String() + "\x00" + string(typ) + "\x00" + id)
}

// findDisclosed returns the records of those tokens that the session may restore.
func (s *records) findDisclosed(ctx context.Context, tx *store.Tx, session string, tokens []Token) (found []record, err error) {
	now := s.now()
	for _, t := range tokens {
		r, err := find(ctx, tx, t)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ok, err := isDisclosed(ctx, tx, r, session)
		if err != nil {
			return nil, err
		}
		if ok && !r.hasExpired(now) {
			found = append(found, r)
		}
	}
	return found, nil
}

// read runs query together with a check of the keys that decrypt its records.
func (s *records) read(ctx context.Context, query func(*store.Tx) ([]record, error)) (with *keys, found []record, err error) {
	err = s.ring.with(ctx, false, func(k *keys) error {
		with = k
		return s.db.View(ctx, func(tx *store.Tx) error {
			if err := k.check(ctx, tx); err != nil {
				return err
			}
			found, err = query(tx)
			return err
		})
	})
	return with, found, err
}

// decryptAll decrypts records and skips damaged ones.
func (s *records) decryptAll(k *keys, found []record) (entries []*entry) {
	for _, r := range found {
		value, err := s.decrypt(k, r)
		if err != nil {
			s.log.Warn("cannot decrypt a vault record", "type", string(r.token.Type()), "record", r.number, "error", err)
			continue
		}
		entries = append(entries, &entry{record: r.number, token: r.token, value: value, expires: r.expires, everywhere: r.everywhere})
	}
	return entries
}

// page is the number of records read per transaction.
const page = 1000

// each calls f with the values after the given record; see Vault.Each.
func (s *records) each(ctx context.Context, after int64, f func(Value)) (last int64, err error) {
	return s.pages(ctx, after, func(entries []*entry) error {
		for _, e := range entries {
			f(e.value)
		}
		return nil
	})
}

// pages calls f with the records after the given one, one page at a time, and returns
// the last record that was read.
func (s *records) pages(ctx context.Context, after int64, f func([]*entry) error) (last int64, err error) {
	if _, err := s.ring.currentMaster(); err != nil {
		return after, err
	}
	for {
		k, records, err := s.read(ctx, func(tx *store.Tx) ([]record, error) { return s.page(ctx, tx, after) })
		if err != nil || len(records) == 0 {
			return after, err
		}
		if err := f(s.decryptAll(k, records)); err != nil {
			return after, err
		}
		after = records[len(records)-1].number
	}
}

func (s *records) page(ctx context.Context, tx *store.Tx, after int64) ([]record, error) {
	return list(ctx, tx, "SELECT "+columns+` FROM vault_records
		WHERE number > ? AND encrypted IS NOT NULL AND (expires IS NULL OR expires > ?) ORDER BY number LIMIT ?`, after, s.now().UnixMilli(), page)
}
