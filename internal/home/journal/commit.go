package journal

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// overhead approximates the size of an entry without its arguments and answer.
const overhead = 128

// mark adds e to the next commit. The caller holds the lock.
func (r *Record) mark(e *entry) {
	if r.large || r.ended || e.dirty {
		return
	}
	e.dirty = true
	r.dirty = append(r.dirty, e)
	r.grow(len(e.ask.Args) + len(e.answer) + overhead)
}

// grow counts bytes that wait for a commit. The caller holds the lock.
func (r *Record) grow(n int) {
	most := maxWaiting
	if r.session {
		most = MaxSessionRecord
	}
	if r.waiting += n; r.waiting > most || r.kept+r.waiting > maxRun {
		r.drop()
	}
}

// drop stops recording because the record is too large. The caller holds the lock.
func (r *Record) drop() {
	r.large, r.dirty, r.waiting = true, nil, 0
	r.steps.drop()
}

// row is the encrypted form of an entry.
type row struct {
	entry
	encryptedArgs, encryptedAnswer []byte
}

// commit commits the dirty entries together with also, and syncs them unless deferred. The
// caller holds the lock; commit releases it.
func (r *Record) commit(ctx context.Context, also change, deferred bool) error {
	if r.session {
		r.mu.Unlock()
		if also == nil {
			return nil
		}
		return r.log.wait(ctx, r.log.enqueue(also, deferred))
	}
	taken, rows, request, err := r.takePending()
	if err != nil {
		r.mu.Unlock()
		return err
	}
	ends, deletes := r.takeSteps()
	if ends != nil {
		rows = append(rows, r.stepsRow(ends))
	}
	if !r.ended {
		r.writes.Add(1)
		defer r.writes.Done()
	}
	w := r.log.enqueue(r.change(rows, request, deletes, also), deferred)
	r.mu.Unlock()
	err = r.log.wait(ctx, w)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		for _, e := range taken {
			e.dirty = false
			r.mark(e)
		}
		r.restoreSteps(ends, deletes)
		return err
	}
	r.stored = true
	return nil
}

// takePending encrypts the dirty entries, and the request if it is not on disk.
func (r *Record) takePending() (taken []*entry, rows []row, request []byte, err error) {
	if r.ended {
		return nil, nil, nil, nil
	}
	if !r.stored {
		if request, err = r.encryptRequest(); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, e := range r.dirty {
		w := row{entry: *e, encryptedArgs: r.box.encrypt(ofArguments, e.number, e.ask.Args)}
		if e.answer != nil {
			w.encryptedAnswer = r.box.encrypt(ofAnswer, e.number, e.answer)
		}
		rows = append(rows, w)
		e.dirty, e.stored = false, true
		if of := r.open[e.ask.Step]; of != nil {
			of.inner += len(e.ask.Args) + len(e.answer) + overhead
		}
	}
	taken, r.dirty, r.kept, r.waiting = r.dirty, nil, r.kept+r.waiting, 0
	return taken, rows, request, nil
}

// change returns the change that writes rows and the request, deletes what completed steps have made
// superfluous, and then makes also.
func (r *Record) change(rows []row, request []byte, deletes []int, also change) change {
	large, ended, size := r.large, r.ended, 0
	for _, w := range rows {
		size += len(w.encryptedArgs) + len(w.encryptedAnswer)
	}
	write := func(ctx context.Context, tx *store.Tx) error {
		if ended {
			return nil
		}
		if request != nil {
			if err := r.begin(ctx, tx, request); err != nil {
				return err
			}
		}
		if large {
			return tooLarge(ctx, r, tx)
		}
		freed, err := deleteSteps(ctx, tx, r.id, deletes)
		if err != nil {
			return err
		}
		for _, w := range rows {
			if err := w.put(ctx, tx, r.id); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "UPDATE runs SET changed = ?, bytes = bytes + ? WHERE execution = ?", time.Now().UnixMilli(), size-freed, r.id)
		return err
	}
	return func(ctx context.Context, tx *store.Tx) error {
		err := write(ctx, tx)
		if err == nil && also != nil {
			err = also(ctx, tx)
		}
		return err
	}
}

func (w row) put(ctx context.Context, tx *store.Tx, execution string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO journal_host_calls (execution, number, method, server, tool, state, step, arguments, answer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (execution, number) DO UPDATE SET state = excluded.state, answer = excluded.answer`,
		execution, w.number, w.ask.Method, w.ask.Ref.Server, w.ask.Ref.Tool, w.state, w.ask.Step, w.encryptedArgs, w.encryptedAnswer)
	return err
}

// begin stores the run of the record, and deletes records beyond the limits.
func (r *Record) begin(ctx context.Context, tx *store.Tx, request []byte) error {
	if err := r.log.makeRoom(ctx, tx); err != nil {
		return err
	}
	if err := insert(ctx, r.log, tx, r.id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE runs SET recorded = 1, created = min(created, ?), bytes = ?, request = ? WHERE execution = ?", r.created.UnixMilli(), len(request), request, r.id)
	return err
}

// tooLarge deletes the content of the record and marks it as too large.
func tooLarge(ctx context.Context, r *Record, tx *store.Tx) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM journal_host_calls WHERE execution = ?", r.id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE runs SET recorded = 2, changed = ?, bytes = 0 WHERE execution = ?", time.Now().UnixMilli(), r.id)
	return err
}
