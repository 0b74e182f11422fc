package approval

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

const columns = `id, kind, execution, session, occurrence, server, tool, schema, arguments, rule, reason, shown,
	created, expires, state, answered, answerer, note`

// scan reads a row of columns.
func (s *Store) scan(row interface{ Scan(...any) error }) (r Request, err error) {
	var created, expires, answered int64
	var shown, note []byte
	err = row.Scan(&r.ID, &r.Kind, &r.Execution, &r.Session, &r.Occurrence, &r.Server, &r.Tool, &r.Schema, &r.Arguments, &r.Rule, &r.Reason, &shown,
		&created, &expires, &r.State, &answered, &r.By, &note)
	if err != nil {
		return r, err
	}
	r.Created, r.Expires = time.UnixMilli(created).UTC(), time.UnixMilli(expires).UTC()
	if answered != 0 {
		r.Answered = time.UnixMilli(answered).UTC()
	}
	if (r.State == Open || r.State == Approved) && !r.Expires.After(s.cfg.Now()) {
		r.State = Expired
	}
	err = s.decryptInto(&r, shown, note)
	return r, err
}

// decryptInto decrypts the text of r.
func (s *Store) decryptInto(r *Request, shown, note []byte) (err error) {
	if r.Shown, err = s.decrypt(r.ID, "shown", shown); err == nil && note != nil {
		note, err = s.decrypt(r.ID, "note", note)
		r.Note = string(note)
	}
	if r.Damaged = err != nil; r.Damaged {
		return fault.Wrap(fault.Internal, err, "approval %s is damaged or was encrypted with another key", r.ID).
			WithHint("it cannot be answered: restore the file key of the data directory from a backup, or let it expire")
	}
	return nil
}

// read returns the request with an id.
func (s *Store) read(ctx context.Context, tx *store.Tx, id string) (Request, error) {
	r, err := s.scan(tx.QueryRowContext(ctx, "SELECT "+columns+" FROM approvals WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		if s.cfg.Unknown != nil && isID(id) {
			s.cfg.Unknown(id)
		}
		err = fault.New(fault.NotFound, "there is no approval %.40q", id).WithHint("`sandpiper approvals list` shows open approvals")
	}
	return r, err
}

// Find returns the request with an id.
func (s *Store) Find(ctx context.Context, id string) (r Request, err error) {
	err = s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		r, err = s.read(ctx, tx, normal(id))
		return err
	})
	return r, err
}

// List returns the open requests, or all stored ones, oldest first. Damaged requests are
// included.
func (s *Store) List(ctx context.Context, all bool) (found []Request, err error) {
	err = s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT "+columns+" FROM approvals WHERE ? OR state = 'open' AND expires > ? ORDER BY created, id", all, s.cfg.Now().UnixMilli())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r, err := s.scan(rows)
			if err != nil && !r.Damaged {
				return err
			}
			found = append(found, r)
		}
		return rows.Err()
	})
	return found, err
}

// retention is how long a request is stored after it expired.
const retention = 7 * 24 * time.Hour

// Sweep deletes requests that expired more than a week ago.
func (s *Store) Sweep(ctx context.Context) error {
	before := s.cfg.Now().Add(-retention).UnixMilli()
	var old bool
	err := s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM approvals WHERE expires < ?)", before).Scan(&old)
	})
	if err != nil || !old { // the usual case: no commit
		return err
	}
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM approvals WHERE expires < ?", before)
		return err
	})
}
