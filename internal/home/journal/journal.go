// Package journal keeps a tenant's record of calls that may have changed
// something outside, and of what executions asked for, so that one can be run
// again without repeating anything.
//
// A call that may change something begins before it is made and is done when it
// was answered; both are on disk before anything follows from them, so that after
// a crash it is known what may have happened: a call that began and is not done.
// That record has who, what and when, and a hash of the arguments, never a value.
// The latest are kept.
//
// A Run is the record of one execution: its request and all that its code asked
// for, with the answers, sealed. It is in memory until the first call that may
// change something begins, and goes to disk with that. Run again, the code gets
// the answers that it got before. What is left of an execution that came to its
// end is deleted.
//
// A Log and a Run are safe for concurrent use, and several processes may have a
// Log of the same database; of a Run only one has it, as long as that lives.
// Calls that begin or end at the same moment share one commit. The package calls
// nothing and runs nothing.
package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Config of a Log.
type Config struct {
	DB       *store.DB // with Tables in it. Required
	MaxCalls int       // calls; 0 means 10,000

	Tenant         tenant.ID     // whose runs are kept. Required with Process
	Process        *Process      // that runs them; nil means that none are kept
	ReorderTimeout time.Duration // with calls that come in another order; 0 means 5 s
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
	pending []*write        // that wait for the next commit
	writing bool            // somebody commits
	running map[string]bool // runs that this process executes

	late    map[string]State // ends that could not be recorded, by execution
	retry   *time.Timer      // that tries again; nil if none waits
	retries sync.WaitGroup
	closed  bool
}

// change is part of a transaction.
type change func(context.Context, *store.Tx) error

// write is one change that waits for a commit.
type write struct {
	apply change
	done  chan error
	turn  chan struct{} // closed when its maker is to commit, for all that waits
}

// New returns the Log of a tenant.
func New(cfg Config) *Log {
	if cfg.MaxCalls == 0 {
		cfg.MaxCalls = 10_000
	}
	cfg.ReorderTimeout = cmp.Or(cfg.ReorderTimeout, 5*time.Second)
	return &Log{cfg: cfg, running: map[string]bool{}, late: map[string]State{}}
}

// Begin records that a call is about to be made. It is on disk when Begin
// returns.
func (l *Log) Begin(ctx context.Context, c tool.Call) (id int64, err error) {
	err = l.commit(ctx, l.begins(c, &id))
	return id, err
}

// begins is the change that records the beginning of a call, under an id.
func (l *Log) begins(c tool.Call, id *int64) change {
	sum := sha256.Sum256(c.Args)
	began := time.Now()
	return func(ctx context.Context, tx *store.Tx) error {
		r, err := tx.ExecContext(ctx, "INSERT INTO journal_calls (execution, server, tool, arguments, began) VALUES (?, ?, ?, ?, ?)",
			c.Execution, c.Server, c.Tool, hex.EncodeToString(sum[:]), began.UnixMilli())
		if err != nil {
			return err
		}
		*id, err = r.LastInsertId()
		if err == nil && *id%100 == 0 {
			_, err = tx.ExecContext(ctx, "DELETE FROM journal_calls WHERE id <= ?", *id-int64(l.cfg.MaxCalls))
		}
		return err
	}
}

// Done records how a call ended. It is on disk when Done returns.
func (l *Log) Done(ctx context.Context, id int64, o Outcome) error {
	return l.commit(ctx, ends(id, o))
}

// ends is the change that records the end of a call.
func ends(id int64, o Outcome) change {
	ended := time.Now()
	return func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE journal_calls SET ended = ?, outcome = ? WHERE id = ?", ended.UnixMilli(), string(o), id)
		return err
	}
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

// commit has apply committed together with what else waits.
func (l *Log) commit(ctx context.Context, apply change) error {
	return l.wait(ctx, l.enqueue(apply))
}

// enqueue puts apply behind what else waits: commits keep that order.
func (l *Log) enqueue(apply change) *write {
	w := &write{apply, make(chan error, 1), make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, w)
	if !l.writing {
		l.writing = true
		close(w.turn)
	}
	return w
}

// wait waits until w is on disk. Whoever comes first commits for all who came
// meanwhile, and leaves what came later to the next.
func (l *Log) wait(ctx context.Context, w *write) error {
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
