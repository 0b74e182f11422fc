package journal

import (
	"context"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// retryDelay is the time between attempts to record final states.
const retryDelay = time.Second

// End records the final state of the execution. State "" means that it completed: its record
// is deleted. Otherwise the record stays for a replay. A state that cannot be written now is
// written later; until then no other process can take over the record.
func (r *Record) End(ctx context.Context, s State) error {
	if r == nil {
		return nil
	}
	r.waitForLater()
	r.mu.Lock()
	if s != "" && r.steps.pending() && !r.large { // the steps of the last milliseconds
		if err := r.commit(ctx, nil, true); err != nil {
			return errors.Join(err, r.endAs(ctx, s))
		}
		r.mu.Lock()
	}
	r.mu.Unlock()
	return r.endAs(ctx, s)
}

// endAs records the final state.
func (r *Record) endAs(ctx context.Context, s State) error {
	r.mu.Lock()
	r.ended, r.dirty = true, nil
	r.steps.stop()
	stored, large := r.stored, r.large
	r.mu.Unlock()
	if !stored {
		r.log.removeRunning(r.id)
		return nil
	}
	if large && s != "" {
		s = TooLarge
	}
	err := r.log.record(ctx, map[string]State{r.id: s})
	if err != nil {
		r.log.recordLater(map[string]State{r.id: s})
	}
	return err
}

// record writes final states to the log of calls, by execution.
func (l *Log) record(ctx context.Context, ends map[string]State) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var lines []line
	for id, s := range ends {
		lines = append(lines, line{kind: recordEnded, execution: id, at: time.Now().UnixMilli(), state: string(s)})
	}
	if err := l.calls.add(ctx, lines, true); err != nil {
		return err
	}
	for id := range ends {
		l.removeRunning(id)
	}
	return nil
}

// endRecord stores the final state of a record that remains.
func endRecord(ctx context.Context, tx *store.Tx, l line) error {
	_, err := tx.ExecContext(ctx, "UPDATE journal_executions SET state = ?, process = '', changed = ? WHERE execution = ?", l.state, l.at, l.execution)
	return err
}

// deleteRecord deletes the record of an execution, and the signals that its code has not received.
func deleteRecord(ctx context.Context, tx *store.Tx, id string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM journal_signals WHERE execution = ?", id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM journal_executions WHERE execution = ?", id)
	return err
}

func (l *Log) removeRunning(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, id)
}

// recordLater schedules another attempt to record the final states.
func (l *Log) recordLater(ends map[string]State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, s := range ends {
		l.late[id] = s
	}
	if l.retry == nil && !l.closed {
		l.retries.Add(1)
		l.retry = time.AfterFunc(retryDelay, func() {
			defer l.retries.Done()
			_ = l.recordLate() // recordLate schedules the next attempt
		})
	}
}

// recordLate records the final states that could not be recorded before.
func (l *Log) recordLate() error {
	l.mu.Lock()
	ends := l.late
	l.late, l.retry = map[string]State{}, nil
	l.mu.Unlock()
	if len(ends) == 0 {
		return nil
	}
	err := l.record(context.Background(), ends)
	if err != nil {
		l.recordLater(ends)
	}
	return err
}

// Close records the final states that could not be recorded before, and stores the log of calls in the
// database, which it does not close.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	if l.retry != nil && l.retry.Stop() {
		l.retries.Done()
	}
	l.mu.Unlock()
	l.retries.Wait()
	err := l.recordLate()
	if err != nil {
		err = errors.Join(errors.New("the ends of executions were not recorded"), err)
	}
	return errors.Join(err, l.calls.Close())
}

// Trim removes the log of calls of a Log that is not used for now: the next call that begins creates
// another one.
func Trim(ctx context.Context, l *Log) error { return l.calls.Trim(ctx) }
