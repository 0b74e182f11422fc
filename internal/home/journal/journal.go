// Package journal records the calls of a tenant that may have side effects, and what each
// execution requested, so that an execution can be replayed without repeating a call.
//
// A call with possible side effects is recorded before it is made and again when it is
// answered. The begin is on disk before the call is made. The end is committed before the
// caller continues and synced within 50 milliseconds: kill -9 loses no end, and a loss of
// power may. A call that began and has no end has an unknown outcome. An Entry contains the
// tool, the times, the outcome and a hash of the arguments, never a value. Only the latest
// entries are kept.
//
// A Record is the record of one execution: its request, the host calls of its code and their
// answers, all encrypted. It is in memory until the first call with possible side effects
// begins, and is written to disk with that call. A replay returns the recorded answers. The
// Record of an execution that completed is deleted.
//
// A Log and a Record are safe for concurrent use. Several processes may have a Log of the
// same database; one live process at a time owns a Record. Changes that arrive at the same
// time share one commit. The package makes no calls and runs no code.
package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Config of a Log.
type Config struct {
	DB       *store.DB // with Tables in it. Required
	MaxCalls int       // entries kept; 0 means 10,000

	Tenant  tenant.ID // owner of the records. Required with Process
	Process *Process  // owner of new records; nil means that executions are not recorded
	// Due is called when the time has changed at which the next background execution is to be
	// claimed, zero for none; nil means not.
	Due func(time.Time) error

	ReorderTimeout time.Duration // how long Next waits for calls in another order; 0 means 5 s
}

// Outcome is how a call ended.
type Outcome string

const (
	Answered Outcome = "answered"
	Failed   Outcome = "failed"   // the tool answered with an error
	NotMade  Outcome = "not_made" // the call was not sent
	Unknown  Outcome = "unknown"  // no answer arrived: the call may have taken effect
)

// Entry is one call of the record.
type Entry struct {
	ID        int64
	Execution string
	Ref       tool.Ref
	Arguments string // hash
	Began     time.Time
	Ended     time.Time // zero while the outcome is unknown
	Outcome   Outcome   // Unknown until the call ends
}

// Log is the record of one tenant.
type Log struct {
	cfg Config

	mu      sync.Mutex
	pending []*write        // waiting for the next commit
	writing bool            // a goroutine is committing
	running map[string]bool // executions of this process

	late    map[string]End // ends that could not be stored, by execution
	retry   *time.Timer    // next attempt to write late; nil if none is scheduled
	retries sync.WaitGroup
	closed  bool
}

// change is part of a transaction.
type change func(context.Context, *store.Tx) error

// write is one change that waits for a commit.
type write struct {
	apply    change
	deferred bool // the sync may follow later: see store.DB.UpdateDeferredSync
	done     chan error
	turn     chan struct{} // closed when its creator has to commit all pending changes
}

// New returns the Log of a tenant.
func New(cfg Config) *Log {
	if cfg.MaxCalls == 0 {
		cfg.MaxCalls = 10_000
	}
	cfg.ReorderTimeout = cmp.Or(cfg.ReorderTimeout, 5*time.Second)
	return &Log{cfg: cfg, running: map[string]bool{}, late: map[string]End{}}
}

// Begin records that a call is about to be made. The entry is on disk when Begin returns.
func (l *Log) Begin(ctx context.Context, c tool.Call) (id int64, err error) {
	err = l.wait(ctx, l.enqueue(l.begins(c, &id), false))
	return id, err
}

// begins returns the change that inserts an entry and sets id.
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

// Done records the outcome of a call. It is committed when Done returns, and synced within
// 50 milliseconds.
func (l *Log) Done(ctx context.Context, id int64, o Outcome) error {
	return l.wait(ctx, l.enqueue(endChange(id, o), true))
}

// endChange returns the change that records the outcome of a call.
func endChange(id int64, o Outcome) change {
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

// maxBatch bounds the changes of one commit.
const maxBatch = 256

// enqueue appends apply to the pending changes. Commits keep their order.
func (l *Log) enqueue(apply change, deferred bool) *write {
	w := &write{apply, deferred, make(chan error, 1), make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, w)
	if !l.writing {
		l.writing = true
		close(w.turn)
	}
	return w
}

// wait returns when w is committed, and on disk unless it is deferred. The creator of the
// first pending change commits the whole batch; changes that arrive during the commit
// belong to the next one.
func (l *Log) wait(ctx context.Context, w *write) error {
	select {
	case err := <-w.done:
		return err
	case <-w.turn:
		l.commitBatch(context.WithoutCancel(ctx))
		return <-w.done
	}
}

// commitBatch commits the pending changes. Those of the next batch are committed while it syncs.
func (l *Log) commitBatch(ctx context.Context) {
	l.mu.Lock()
	n := min(maxBatch, len(l.pending))
	batch := l.pending[:n:n]
	l.pending = l.pending[n:]
	l.mu.Unlock()
	err := l.cfg.DB.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		for _, w := range batch {
			if err := w.apply(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	l.mu.Lock()
	if l.writing = len(l.pending) > 0; l.writing {
		close(l.pending[0].turn)
	}
	l.mu.Unlock()
	inSync := slices.DeleteFunc(slices.Clone(batch), func(w *write) bool {
		if w.deferred {
			w.done <- err
		}
		return w.deferred
	})
	if err == nil && len(inSync) > 0 {
		err = l.cfg.DB.Sync()
	}
	for _, w := range inSync {
		w.done <- err
	}
}
