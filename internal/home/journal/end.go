package journal

import (
	"context"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// retryDelay is how long after it could not be recorded that runs ended it is tried
// again.
const retryDelay = time.Second

// End says how the execution ended. Of one that came to its end nothing stays; of
// any other what is on disk, so that it can be run again. State is "" for the
// first. An end that cannot be recorded now is recorded later: until then the run
// cannot be taken over.
func (r *Record) End(ctx context.Context, s State) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	r.ended, r.dirty = true, nil
	stored, large := r.stored, r.large
	r.mu.Unlock()
	r.writes.Wait() // so that this is the last
	if !stored {
		r.log.leave(r.id)
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

// record has the ends of runs on disk, by their executions.
func (l *Log) record(ctx context.Context, ends map[string]State) error {
	err := l.cfg.DB.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		for id, s := range ends {
			if err := end(ctx, tx, id, s); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		for id := range ends {
			l.leave(id)
		}
	}
	return err
}

func end(ctx context.Context, tx *store.Tx, id string, s State) error {
	if s == "" {
		_, err := tx.ExecContext(ctx, "DELETE FROM journal_executions WHERE execution = ?", id)
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE journal_executions SET state = ?, process = '', changed = ? WHERE execution = ?", string(s), time.Now().UnixMilli(), id)
	return err
}

func (l *Log) leave(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, id)
}

// recordLater records ends when that is possible again.
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
			_ = l.recordLate() // it is tried again
		})
	}
}

// recordLate tries to record the ends that could not be recorded before.
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

// Close records the ends that could not be recorded before, or says that it still
// cannot be done. It leaves the database open.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	if l.retry != nil && l.retry.Stop() {
		l.retries.Done()
	}
	l.mu.Unlock()
	l.retries.Wait()
	if err := l.recordLate(); err != nil {
		return errors.Join(errors.New("the ends of executions were not recorded"), err)
	}
	return nil
}
