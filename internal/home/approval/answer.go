package approval

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// letters of an id. None is easily mistaken for another.
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

// isID reports whether a text has the form of an id.
func isID(text string) bool { return len(text) == 10 && strings.Trim(text, letters) == "" }

// normal normalizes a typed id.
func normal(id string) string { return strings.ToLower(strings.TrimSpace(id)) }

// Create stores a request. If one with the same binding is open, approved and unused, or
// denied, it returns that instead, so that a caller finds its answer after a restart; and once, one that has
// expired while its execution had no process, see ExpireWaiting. The error
// is Exhausted if too many requests are open or the arguments are too large to show.
func (s *Store) Create(ctx context.Context, q Question) (r Request, err error) {
	if len(q.Shown) > maxShownBytes {
		return r, fault.New(fault.Exhausted, "the arguments have %d bytes; at most %d MiB can be approved", len(q.Shown),
			maxShownBytes>>20).
			WithHint("send less at once")
	}
	q.Origin = q.Origin.fit()
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		if r, err = s.findSame(ctx, tx, q); err == nil && r.State == Expired {
			_, err = tx.ExecContext(ctx, "UPDATE approvals SET unseen = 0 WHERE id = ?", r.ID) // a later run asks again
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := s.checkLimit(ctx, tx); err != nil {
			return err
		}
		if err := s.deleteOldest(ctx, tx); err != nil {
			return err
		}
		now := s.cfg.Now().UTC().Truncate(time.Millisecond)
		r = Request{ID: newID(), Question: q, Created: now, Expires: now.Add(s.cfg.Timeout), State: Open}
		_, err := tx.ExecContext(ctx, "INSERT INTO approvals ("+columns+
			") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open', 0, '', NULL, ?)",
			r.ID, r.Kind, r.Execution, r.Session, r.Occurrence, r.Server, r.Tool, r.Schema, r.Arguments, r.Rule, r.Reason,
			s.cipher.Seal(ofShown, q.Shown, r.ID), r.Created.UnixMilli(), r.Expires.UnixMilli(), q.Origin.encrypt(s, r.ID))
		if err != nil {
			return err
		}
		return s.cfg.Record(ctx, r)
	})
	return r, err
}

// findSame returns the latest request with a binding that is still in force, or
// sql.ErrNoRows. A denial does not expire within its execution. Without an execution
// any later call has the same binding, so there a denial is in force until it expires
// or ConsumeDenial is called. An approval that was used is in force for a call that was not begun: the
// process ended in between.
func (s *Store) findSame(ctx context.Context, tx *store.Tx, q Question) (Request, error) {
	return s.scan(tx.QueryRowContext(ctx, "SELECT "+stored+` FROM approvals
		WHERE execution = ? AND server = ? AND tool = ? AND arguments = ? AND kind = ? AND occurrence = ? AND schema = ?
			AND ((state IN ('open', 'approved', 'denied') OR state = 'used' AND ?) AND expires > ? OR state = 'denied' AND execution <> '' OR unseen)
		ORDER BY created DESC LIMIT 1`,
		q.Execution, q.Server, q.Tool, q.Arguments, q.Kind, q.Occurrence, q.Schema, q.NotBegun, s.cfg.Now().UnixMilli()))
}

func (s *Store) checkLimit(ctx context.Context, tx *store.Tx) error {
	var n int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM approvals WHERE state = 'open' AND expires > ?", s.cfg.Now().UnixMilli()).Scan(&n)
	if err == nil && n >= s.cfg.MaxOpen {
		err = fault.New(fault.Exhausted, "%d approvals are open, which is the limit", n).
			WithHint("answer them first: `sandpiper approvals list` shows them")
	}
	return err
}

// Limits of one tenant, whose code may create any number of requests.
const (
	maxShownBytes    = 2 << 20  // of one request
	maxFinished      = 1000     // finished requests
	maxFinishedBytes = 32 << 20 // what those requests show, with their code
)

// deleteOldest deletes the oldest finished requests beyond the limits.
func (s *Store) deleteOldest(ctx context.Context, tx *store.Tx) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM approvals WHERE id IN (SELECT id FROM (
		SELECT id, row_number() OVER latest AS n, sum(length(shown) + coalesce(length(origin), 0)) OVER latest AS bytes FROM approvals
		WHERE state NOT IN ('open', 'approved') OR expires <= ? WINDOW latest AS (ORDER BY created DESC, id)
	) WHERE n > ? OR bytes > ?)`, s.cfg.Now().UnixMilli(), maxFinished, maxFinishedBytes)
	return err
}

// Answer is the decision of a person.
type Answer struct {
	Approve bool
	By      string // Client, CommandLine, WebPage or Program
	Note    string // reason, or ""
	Asked   bool   // the caller that waits was asked
	// Scope is which calls an approval allows. It is ignored in a denial.
	Scope grant.Scope
}

// maxNote bounds a note, in bytes.
const maxNote = 1000

// Answer answers a request. Only the first answer is accepted; it is refused if the
// request has expired, belongs to another tenant or is answered in another way. An approval with a
// Scope also approves the open requests that it covers.
func (s *Store) Answer(ctx context.Context, id string, a Answer) (r Request, err error) {
	if err := ViaOf(s).check(normal(id), a); err != nil {
		return r, err
	}
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		if r, err = s.read(ctx, tx, normal(id)); err != nil {
			return err
		}
		if r.State != Open {
			return r.refusal()
		}
		if err := r.checkDecision(a); err != nil {
			return err
		}
		if r.State = Denied; a.Approve {
			r.State = Approved
		}
		r.Answered, r.By, r.Note = s.cfg.Now().UTC().Truncate(time.Millisecond), a.By, short(a.Note)
		if !a.Approve || a.Scope == grant.Once {
			return s.update(ctx, tx, r)
		}
		return allowMore(ctx, s, tx, &r, a.Scope)
	})
	return r, err
}

func short(note string) string {
	return strings.ToValidUTF8(note[:min(len(note), maxNote)], "")
}

// update writes the state of a request.
func (s *Store) update(ctx context.Context, tx *store.Tx, r Request) error {
	var note []byte
	if r.Note != "" {
		note = s.cipher.Seal(ofNote, []byte(r.Note), r.ID)
	}
	var answered int64
	if !r.Answered.IsZero() {
		answered = r.Answered.UnixMilli()
	}
	_, err := tx.ExecContext(ctx, "UPDATE approvals SET state = ?, answered = ?, answerer = ?, note = ? WHERE id = ?", r.State, answered,
		r.By, note, r.ID)
	if err != nil {
		return err
	}
	if err := s.cfg.Record(ctx, r); err != nil || s.Closed == nil {
		return err
	}
	return s.Closed(ctx, tx, r)
}

// refusal returns the reason why a request accepts no answer.
func (r Request) refusal() error {
	switch r.State {
	case Expired:
		return fault.New(fault.Denied, "approval %s expired at %s", r.ID, clockTime(r.Expires))
	case Withdrawn:
		return fault.New(fault.Denied, "approval %s was withdrawn: nothing waits for the answer any more", r.ID)
	}
	answer := Approved
	if r.State == Denied {
		answer = Denied
	}
	return fault.New(fault.Denied, "approval %s was answered already: %s at %s, by the %s", r.ID, answer, clockTime(r.Answered),
		strings.ReplaceAll(r.By, "_", " "))
}

func clockTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// ErrUsed is wrapped in the error of Use if the approval was already used.
var ErrUsed = errors.New("used already")

// Use marks an approval as used, if it was given for the binding b.
func (s *Store) Use(ctx context.Context, id string, b Binding) error {
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		r, err := s.read(ctx, tx, normal(id))
		switch {
		case err != nil:
			return err
		case r.Binding != b:
			return fault.New(fault.Denied, "approval %s was given for another call", r.ID)
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
// the next such call needs a new approval. A denial within an execution stays in force.
func (s *Store) ConsumeDenial(ctx context.Context, id string) error {
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE approvals SET expires = min(expires, ?) WHERE id = ? AND state = 'denied' AND execution = ''",
			s.cfg.Now().UnixMilli(), normal(id))
		return err
	})
}

// Withdraw withdraws an open request; it does not change any other.
func (s *Store) Withdraw(ctx context.Context, id string) error {
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE approvals SET state = 'withdrawn' WHERE id = ? AND state = 'open'", normal(id))
		return err
	})
}

// pollInterval is how often Wait checks for an answer of another process.
const pollInterval = 250 * time.Millisecond

// Wait returns the request when it is no longer open: it was answered, possibly in another
// process, or it expired.
func (s *Store) Wait(ctx context.Context, id string) (Request, error) {
	look := time.NewTicker(pollInterval)
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

// expire records that a request has expired, unless that is recorded.
func (s *Store) expire(ctx context.Context, id string) (r Request, err error) {
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		var state State
		if err := tx.QueryRowContext(ctx, "SELECT state FROM approvals WHERE id = ?", id).Scan(&state); err != nil {
			return err
		}
		if r, err = s.read(ctx, tx, id); err != nil || state == Expired {
			return err
		}
		return s.update(ctx, tx, r)
	})
	return r, err
}

// ExpireWaiting records that requests of an execution have expired that waited for them without a process. The
// calls that they are about learn of it when they are made again.
func ExpireWaiting(ctx context.Context, s *Store, execution string) error {
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		open, err := requestsIn(ctx, s, tx, "state = 'open' AND execution = ?", execution)
		for _, r := range open {
			if err != nil || r.State != Expired {
				continue
			}
			if err = s.update(ctx, tx, r); err == nil {
				_, err = tx.ExecContext(ctx, "UPDATE approvals SET unseen = 1 WHERE id = ?", r.ID)
			}
		}
		return err
	})
}

// OpenIn reports, in a transaction of the same database, whether requests are all open.
func OpenIn(ctx context.Context, s *Store, tx *store.Tx, ids []string) (bool, error) {
	for _, id := range ids {
		var open bool
		err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM approvals WHERE id = ? AND state = 'open' AND expires > ?)", id,
			s.cfg.Now().UnixMilli()).Scan(&open)
		if err != nil || !open {
			return false, err
		}
	}
	return true, nil
}

// WithdrawAll withdraws the open requests of an execution that has ended.
func WithdrawAll(ctx context.Context, s *Store, execution string) error {
	return s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE approvals SET state = 'withdrawn' WHERE execution = ? AND state = 'open'", execution)
		return err
	})
}

// UntilAnswered calls ask, with a context that ends when a request is no longer open. It returns the request
// if that happened before ask returned or by ask, and nil with the error of ask otherwise.
func UntilAnswered(ctx context.Context, s *Store, id string, ask func(context.Context) error) (*Request, error) {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	answered := make(chan Request, 1)
	go func() {
		defer close(answered)
		defer stop()
		if r, err := s.Wait(asking, id); err == nil {
			answered <- r
		}
	}()
	err := ask(asking)
	stop()
	if r, ok := <-answered; ok {
		return &r, nil
	}
	return nil, err
}
