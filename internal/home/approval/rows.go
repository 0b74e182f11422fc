package approval

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

const columns = `id, kind, execution, session, occurrence, server, tool, schema, arguments, rule, reason, shown,
	created, expires, state, answered, answerer, note, origin`

// stored are the columns with the scope of the grant that came with the answer.
const stored = columns + ", coalesce((SELECT scope FROM approval_grants AS g WHERE g.id = approvals.id), '')"

// scan reads a row of stored.
func (s *Store) scan(row interface{ Scan(...any) error }) (r Request, err error) {
	var created, expires, answered int64
	var shown, note, origin []byte
	err = row.Scan(&r.ID, &r.Kind, &r.Execution, &r.Session, &r.Occurrence, &r.Server, &r.Tool, &r.Schema, &r.Arguments, &r.Rule, &r.Reason,
		&shown,
		&created, &expires, &r.State, &answered, &r.By, &note, &origin, &r.Scope)
	if err != nil {
		return r, err
	}
	r.Created, r.Expires = time.UnixMilli(created).UTC(), time.UnixMilli(expires).UTC()
	if answered != 0 {
		r.Answered = time.UnixMilli(answered).UTC()
	}
	now := s.cfg.Now()
	if left := clock.Left(r.Expires, now, r.Expires.Sub(r.Created)); left < r.Expires.Sub(now) { // the clock was put back
		r.Expires = now.Add(left).UTC()
	}
	if (r.State == Open || r.State == Approved) && !r.Expires.After(now) {
		r.State = Expired
	}
	err = s.decryptInto(&r, shown, note, origin)
	return r, err
}

// decryptInto decrypts the text of r.
func (s *Store) decryptInto(r *Request, shown, note, origin []byte) (err error) {
	if r.Shown, err = s.cipher.Open(ofShown, shown, r.ID); err == nil && note != nil {
		note, err = s.cipher.Open(ofNote, note, r.ID)
		r.Note = string(note)
	}
	if err == nil && origin != nil {
		r.Origin, err = decryptOrigin(s, r.ID, origin)
	}
	if r.Damaged = err != nil; r.Damaged {
		return fault.Wrap(fault.Internal, err, "approval %s is damaged or was encrypted with another key", r.ID).
			WithHint("it cannot be answered: restore the file key of the data directory from a backup, or let it expire")
	}
	return nil
}

// read returns the request with an id.
func (s *Store) read(ctx context.Context, tx *store.Tx, id string) (Request, error) {
	r, err := s.scan(tx.QueryRowContext(ctx, "SELECT "+stored+" FROM approvals WHERE id = ?", id))
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
		rows, err := tx.QueryContext(ctx, "SELECT "+stored+" FROM approvals WHERE ? OR state = 'open' AND expires > ? ORDER BY created, id",
			all, s.cfg.Now().UnixMilli())
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

// Sweep deletes requests that expired more than a week ago, and moves the times of those that were made
// by a clock that has been put back since, so that they expire after their own lifetime.
func (s *Store) Sweep(ctx context.Context) error {
	if err := s.Grants.Sweep(ctx); err != nil {
		return err
	}
	now := s.cfg.Now().UnixMilli()
	before := now - retention.Milliseconds()
	var due bool
	err := s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM approvals WHERE expires < ? OR created > ?)", before, now).Scan(&due)
	})
	if err != nil || !due { // the usual case: no commit
		return err
	}
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE approvals SET created = ?1, expires = ?1 + expires - created WHERE created > ?1",
			now); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM approvals WHERE expires < ?", before)
		return err
	})
}
