package journal

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// retryDelay is the time between attempts to store ends.
const retryDelay = time.Second

// End gives up the run of the record; its contents stay for a replay unless it is forgotten. A run of
// which nothing is on disk is not stored, unless a daemon continues it or its result is kept.
func (r *Record) End(ctx context.Context, e End) error {
	if r == nil {
		return nil
	}
	var unsaved error
	if e.State != absent && !e.Forget {
		unsaved = flushSteps(ctx, r)
	}
	stored, large := stop(r)
	if e.large = large && !e.Forget; !stored && (e.State == absent || e.State == Ended && e.Result == nil) {
		r.log.removeRunning(r.id)
		return unsaved
	}
	return errors.Join(unsaved, r.log.End(ctx, r.id, e))
}

// flushSteps commits the steps of the last milliseconds.
func flushSteps(ctx context.Context, r *Record) error {
	r.waitForLater()
	r.mu.Lock()
	if !r.pending.steps.exist() || r.pending.large {
		r.mu.Unlock()
		return nil
	}
	return r.commit(ctx, nil, true)
}

// stop ends the recording. No write follows.
func stop(r *Record) (stored, large bool) {
	r.waitForLater()
	r.mu.Lock()
	r.pending.stop()
	stored, large = r.pending.stored, r.pending.large
	r.mu.Unlock()
	return stored, large
}

// Close ends the recording. The run stays as it is, and belongs to this process.
func (r *Record) Close() {
	if r != nil {
		stop(r)
		r.log.removeRunning(r.id)
	}
}

// EndProgram stores the result of a program of a run that this process owns, and deletes its record:
// another program may follow. If this process ends before, the result is that of the run.
func EndProgram(ctx context.Context, l *Log, id string, r *Record, result []byte) error {
	r.Close()
	x, err := l.cipher(id)
	if err != nil {
		return err
	}
	return l.calls.Update(ctx, func(tx *store.Tx) error {
		if err := deleteRecord(ctx, tx, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE runs SET result = ? WHERE execution = ?", x.encrypt(ofResult, 0, result), id)
		return err
	})
}

// Before returns the End that makes the run of an opened record what it was before.
func Before(r *Record) End { return r.before }

// End gives up a run. An end that cannot be stored now is stored later; until then no other process can
// take over the run.
func (l *Log) End(ctx context.Context, id string, e End) error {
	if len(e.Result) > MaxResultBytes {
		return fault.New(fault.Exhausted, "the result has %d bytes; at most %d are kept", len(e.Result), MaxResultBytes)
	}
	if l.cfg.Process == nil {
		return nil
	}
	err := l.end(ctx, id, e)
	if err != nil {
		endLater(l, map[string]End{id: e})
		return err
	}
	l.removeRunning(id)
	return nil
}

func (l *Log) removeRunning(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, id)
}

// endLater schedules another attempt to store ends.
func endLater(l *Log, ends map[string]End) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.late, ends)
	if l.retry == nil && !l.closed {
		l.retries.Add(1)
		l.retry = time.AfterFunc(retryDelay, func() {
			defer l.retries.Done()
			_ = endLate(l) // endLate schedules the next attempt
		})
	}
}

// endLate stores the ends that could not be stored before.
func endLate(l *Log) (err error) {
	l.mu.Lock()
	ends := l.late
	l.late, l.retry = map[string]End{}, nil
	l.mu.Unlock()
	for id, e := range ends {
		if wrong := l.end(context.Background(), id, e); wrong != nil {
			err = wrong
			continue
		}
		l.removeRunning(id)
		delete(ends, id)
	}
	if err != nil {
		endLater(l, ends)
	}
	return err
}

// Close stores the ends that could not be stored before, and the log of calls in the database, which it
// does not close.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	if l.retry != nil && l.retry.Stop() {
		l.retries.Done()
	}
	l.mu.Unlock()
	l.retries.Wait()
	err := endLate(l)
	if err != nil {
		err = errors.Join(errors.New("the ends of executions were not recorded"), err)
	}
	return errors.Join(err, l.calls.Close())
}

// Trim removes the log of calls of a Log that is not used for now: the next call that begins creates
// another one.
func Trim(ctx context.Context, l *Log) error { return l.calls.Trim(ctx) }
