// Package journal keeps a tenant's record of calls that may have changed
// something outside.
//
// Such a call begins before it is made and is done when it was answered; both are
// on disk before anything follows from them, so that after a crash it is known
// what may have happened: a call that began and is not done. The record has who,
// what and when, and a hash of the arguments, never a value. The latest are kept.
//
// A Log is safe for concurrent use, and several processes may have one for the
// same database. Calls that begin or end at the same moment share one commit. The
// package calls nothing and decides nothing.
package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Tables is the first migration of the journal. Times are Unix milliseconds.
const Tables = `
CREATE TABLE journal_calls (
	id        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	execution TEXT    NOT NULL,
	server    TEXT    NOT NULL,
	tool      TEXT    NOT NULL,
	arguments TEXT    NOT NULL, -- hash
	began     INTEGER NOT NULL,
	ended     INTEGER,          -- NULL as long as it is not known
	outcome   TEXT              -- how it ended
) STRICT;
`

// Config of a Log.
type Config struct {
	DB   *store.DB // with Tables in it. Required
	Kept int       // calls; 0 means 10,000
}

// Outcome is how a call ended.
type Outcome string

const (
	Answered Outcome = "answered"
	Failed   Outcome = "failed"  // the tool answered with an error
	Unknown  Outcome = "unknown" // no answer came: it may have happened
)

// Entry is one call of the record.
type Entry struct {
	ID        int64
	Execution string
	Ref       tool.Ref
	Arguments string // hash
	Began     time.Time
	Ended     time.Time // zero as long as it is not known
	Outcome   Outcome   // Unknown until then
}

// Log is the record of one tenant.
type Log struct {
	cfg Config

	mu      sync.Mutex
	pending []*write // that wait for the next commit
	writing bool     // somebody commits
}

// write is one change that waits for a commit.
type write struct {
	apply func(context.Context, *store.Tx) error
	done  chan error
	turn  chan struct{} // closed when its maker is to commit, for all that waits
}

// New returns the Log of a tenant.
func New(cfg Config) *Log {
	if cfg.Kept == 0 {
		cfg.Kept = 10_000
	}
	return &Log{cfg: cfg}
}

// Begin records that a call is about to be made. It is on disk when Begin
// returns.
func (l *Log) Begin(ctx context.Context, c tool.Call) (id int64, err error) {
	sum := sha256.Sum256(c.Args)
	began := time.Now()
	err = l.commit(ctx, func(ctx context.Context, tx *store.Tx) error {
		r, err := tx.ExecContext(ctx, "INSERT INTO journal_calls (execution, server, tool, arguments, began) VALUES (?, ?, ?, ?, ?)",
			c.Execution, c.Server, c.Tool, hex.EncodeToString(sum[:]), began.UnixMilli())
		if err != nil {
			return err
		}
		id, err = r.LastInsertId()
		if err == nil && id%100 == 0 {
			_, err = tx.ExecContext(ctx, "DELETE FROM journal_calls WHERE id <= ?", id-int64(l.cfg.Kept))
		}
		return err
	})
	return id, err
}

// Done records how a call ended. It is on disk when Done returns.
func (l *Log) Done(ctx context.Context, id int64, o Outcome) error {
	ended := time.Now()
	return l.commit(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE journal_calls SET ended = ?, outcome = ? WHERE id = ?", ended.UnixMilli(), string(o), id)
		return err
	})
}

// List returns the latest calls, newest first.
func (l *Log) List(ctx context.Context, most int) (entries []Entry, err error) {
	err = l.cfg.DB.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT id, execution, server, tool, arguments, began, coalesce(ended, 0), coalesce(outcome, 'unknown')
			FROM journal_calls ORDER BY id DESC LIMIT ?`, most)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var e Entry
			var began, ended int64
			if err := rows.Scan(&e.ID, &e.Execution, &e.Ref.Server, &e.Ref.Tool, &e.Arguments, &began, &ended, &e.Outcome); err != nil {
				return err
			}
			e.Began = time.UnixMilli(began).UTC()
			if ended != 0 {
				e.Ended = time.UnixMilli(ended).UTC()
			}
			entries = append(entries, e)
		}
		return rows.Err()
	})
	return entries, err
}

// most changes of one commit.
const most = 256

// commit has apply committed together with what else waits. Whoever comes first
// commits for all who came meanwhile, and leaves what came later to the next.
func (l *Log) commit(ctx context.Context, apply func(context.Context, *store.Tx) error) error {
	w := &write{apply, make(chan error, 1), make(chan struct{})}
	l.mu.Lock()
	l.pending = append(l.pending, w)
	if !l.writing {
		l.writing = true
		close(w.turn)
	}
	l.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-w.turn:
		l.round(context.WithoutCancel(ctx))
		return <-w.done
	}
}

// round commits what waits.
func (l *Log) round(ctx context.Context) {
	l.mu.Lock()
	n := min(most, len(l.pending))
	batch := l.pending[:n:n]
	l.pending = l.pending[n:]
	l.mu.Unlock()
	err := l.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		for _, w := range batch {
			if err := w.apply(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	for _, w := range batch {
		w.done <- err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing = len(l.pending) > 0; l.writing {
		close(l.pending[0].turn)
	}
}
