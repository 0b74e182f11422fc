package approval

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// letters of an id: none that is read for another.
const letters = "0123456789abcdefghjkmnpqrstvwxyz"

// newID returns 50 random bits, short enough to type.
func newID() string {
	b := make([]byte, 10)
	rand.Read(b)
	for i := range b {
		b[i] = letters[b[i]%32]
	}
	return string(b)
}

// normal is an id as somebody may type it.
func normal(id string) string { return strings.ToLower(strings.TrimSpace(id)) }

// Create opens a request. One with the same binding that is open, was approved and is
// not used yet, or was denied is returned instead: whoever asks again after a restart
// finds the answer that was given. Exhausted says that too many are open, or that there is
// more to show than anybody would look at.
func (s *Store) Create(ctx context.Context, q Question) (r Request, err error) {
	if len(q.Shown) > mostShownBytes {
		return r, fault.New(fault.Exhausted, "its arguments have %d bytes, and a person is asked about at most %d MiB", len(q.Shown), mostShownBytes>>20).
			WithHint("send less at once")
	}
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		r, err = s.same(ctx, tx, q.Binding)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := s.room(ctx, tx); err != nil {
			return err
		}
		if err := s.tidy(ctx, tx); err != nil {
			return err
		}
		now := s.cfg.Now().UTC().Truncate(time.Millisecond)
		r = Request{ID: newID(), Question: q, Created: now, Expires: now.Add(s.cfg.Timeout), State: Open}
		_, err := tx.ExecContext(ctx, "INSERT INTO approvals ("+columns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open', 0, '', NULL)",
			r.ID, r.Kind, r.Execution, r.Session, r.Occurrence, r.Server, r.Tool, r.Schema, r.Arguments, r.Rule, r.Reason,
			s.seal(r.ID, "shown", q.Shown), r.Created.UnixMilli(), r.Expires.UnixMilli())
		if err != nil {
			return err
		}
		return s.cfg.Record(ctx, r)
	})
	return r, err
}

// same returns the latest request with a binding that is still in force, or
// sql.ErrNoRows. A denial does not expire within its execution. Without an execution
// any later call has the same binding, so there a denial is in force until it expires
// or Decline reports it.
func (s *Store) same(ctx context.Context, tx *store.Tx, b Binding) (Request, error) {
	return s.scan(tx.QueryRowContext(ctx, "SELECT "+columns+` FROM approvals
		WHERE execution = ? AND server = ? AND tool = ? AND arguments = ? AND kind = ? AND occurrence = ? AND schema = ?
			AND (state IN ('open', 'approved', 'denied') AND expires > ? OR state = 'denied' AND execution <> '')
		ORDER BY created DESC LIMIT 1`,
		b.Execution, b.Server, b.Tool, b.Arguments, b.Kind, b.Occurrence, b.Schema, s.cfg.Now().UnixMilli()))
}

func (s *Store) room(ctx context.Context, tx *store.Tx) error {
	var n int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM approvals WHERE state = 'open' AND expires > ?", s.cfg.Now().UnixMilli()).Scan(&n)
	if err == nil && n >= s.cfg.MaxOpen {
		err = fault.New(fault.Exhausted, "%d approvals wait for an answer already, and no more may", n).
			WithHint("the person can answer them: `sandpiper approvals list` shows them")
	}
	return err
}

// Bounds on what lies on disk of one tenant, who may have code that asks and asks.
const (
	mostShownBytes = 2 << 20  // of one request
	mostOver       = 1000     // requests that cannot be answered any more, nor used
	mostOverBytes  = 32 << 20 // of what was shown of those
)

// tidy deletes the oldest requests that are over, beyond what is kept.
func (s *Store) tidy(ctx context.Context, tx *store.Tx) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM approvals WHERE id IN (SELECT id FROM (
		SELECT id, row_number() OVER latest AS n, sum(length(shown)) OVER latest AS bytes FROM approvals
		WHERE state NOT IN ('open', 'approved') OR expires <= ? WINDOW latest AS (ORDER BY created DESC, id)
	) WHERE n > ? OR bytes > ?)`, s.cfg.Now().UnixMilli(), mostOver, mostOverBytes)
	return err
}

// Answer is what somebody decided.
type Answer struct {
	Approve bool
	By      string // Client or CommandLine
	Note    string // what they said, or ""
}

// maxNote bounds what a person says, in bytes.
const maxNote = 1000

// Answer answers a request. Exactly one answer is taken: a later one, one of another
// tenant, or one after the request has expired is refused.
func (s *Store) Answer(ctx context.Context, id string, a Answer) (r Request, err error) {
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		if r, err = s.read(ctx, tx, normal(id)); err != nil {
			return err
		}
		if r.State != Open {
			return r.refusal()
		}
		if r.State = Denied; a.Approve {
			r.State = Approved
		}
		r.Answered, r.By, r.Note = s.cfg.Now().UTC().Truncate(time.Millisecond), a.By, short(a.Note)
		return s.settle(ctx, tx, r)
	})
	return r, err
}

func short(note string) string {
	return strings.ToValidUTF8(note[:min(len(note), maxNote)], "")
}

// settle writes what has become of a request.
func (s *Store) settle(ctx context.Context, tx *store.Tx, r Request) error {
	var note []byte
	if r.Note != "" {
		note = s.seal(r.ID, "note", []byte(r.Note))
	}
	var answered int64
	if !r.Answered.IsZero() {
		answered = r.Answered.UnixMilli()
	}
	_, err := tx.ExecContext(ctx, "UPDATE approvals SET state = ?, answered = ?, answerer = ?, note = ? WHERE id = ?", r.State, answered, r.By, note, r.ID)
	if err != nil {
		return err
	}
	return s.cfg.Record(ctx, r)
}

// refusal says why a request takes no answer any more.
func (r Request) refusal() error {
	switch r.State {
	case Expired:
		return fault.New(fault.Denied, "approval %s has expired at %s", r.ID, clockTime(r.Expires))
	case Withdrawn:
		return fault.New(fault.Denied, "nobody waits for approval %s any more: its execution has ended", r.ID)
	}
	said := Approved
	if r.State == Denied {
		said = Denied
	}
	return fault.New(fault.Denied, "approval %s was answered already: %s at %s, by the %s", r.ID, said, clockTime(r.Answered), strings.ReplaceAll(r.By, "_", " "))
}

func clockTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// ErrUsed is in an error of Use that came too late: another call was made with the
// same approval.
var ErrUsed = errors.New("used already")

// Use uses an approval up, for exactly what it was given for.
func (s *Store) Use(ctx context.Context, id string, b Binding) error {
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		r, err := s.read(ctx, tx, normal(id))
		switch {
		case err != nil:
			return err
		case r.Binding != b:
			return fault.New(fault.Denied, "approval %s was given for something else", r.ID)
		case r.State == Used:
			return fault.Wrap(fault.Denied, ErrUsed, "approval %s was used already", r.ID)
		case r.State != Approved:
			return fault.New(fault.Denied, "approval %s is %s", r.ID, r.State)
		}
		_, err = tx.ExecContext(ctx, "UPDATE approvals SET state = 'used' WHERE id = ?", r.ID)
		return err
	})
}

// ConsumeDenial records that a denial was reported to a call that belongs to no execution:
// the next such call is asked about anew. A denial within an execution stays in force.
func (s *Store) ConsumeDenial(ctx context.Context, id string) error {
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE approvals SET expires = min(expires, ?) WHERE id = ? AND state = 'denied' AND execution = ''",
			s.cfg.Now().UnixMilli(), normal(id))
		return err
	})
}

// Withdraw takes an open request back; any other stays as it is.
func (s *Store) Withdraw(ctx context.Context, id string) error {
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE approvals SET state = 'withdrawn' WHERE id = ? AND state = 'open'", normal(id))
		return err
	})
}

// lookEvery is how often Wait looks whether another process has answered.
const lookEvery = 250 * time.Millisecond

// Wait returns a request once it is not open any more: somebody has answered, here
// or in another process, or it has expired.
func (s *Store) Wait(ctx context.Context, id string) (Request, error) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		r, err := s.Find(ctx, id)
		switch {
		case err != nil:
			return r, err
		case r.State == Expired:
			return s.expire(ctx, r.ID)
		case r.State != Open:
			return r, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}

// expire writes that a request has expired, if nobody has yet.
func (s *Store) expire(ctx context.Context, id string) (r Request, err error) {
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		var state State
		if err := tx.QueryRowContext(ctx, "SELECT state FROM approvals WHERE id = ?", id).Scan(&state); err != nil {
			return err
		}
		if r, err = s.read(ctx, tx, id); err != nil || state == Expired {
			return err
		}
		return s.settle(ctx, tx, r)
	})
	return r, err
}
