package journal

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/appendlog"
)

// commit appends the dirty entries and then also to the log of calls, and syncs that unless deferred. The
// caller holds the lock; commit releases it.
func (r *Record) commit(ctx context.Context, also []line, deferred bool) error {
	file, err := r.append(ctx, also)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	return r.log.calls.Sync(ctx, file, deferred)
}

// append appends the dirty entries and then also to the log of calls. The caller holds the lock.
func (r *Record) append(ctx context.Context, also []line) (*appendlog.Log, error) {
	if r.pending.session || r.pending.ended {
		if also == nil {
			return nil, nil
		}
		return r.log.calls.append(ctx, also)
	}
	lines, err := newLines(r)
	if err != nil {
		return nil, err
	}
	file, err := r.log.calls.append(ctx, append(lines, also...))
	if err == nil {
		r.pending.appended()
	}
	return file, err
}

// newLines returns what the log of calls lacks: the request if there is nothing of the record, steps that have
// ended, and the dirty entries.
func newLines(r *Record) (lines []line, err error) {
	now := time.Now().UnixMilli()
	if !r.pending.stored {
		request, err := encryptRequest(r)
		if err != nil {
			return nil, err
		}
		process, err := r.log.cfg.Process.name()
		if err != nil {
			return nil, err
		}
		lines = append(lines, line{
			kind:      recordEntered,
			execution: r.id,
			at:        now,
			created:   r.created.UnixMilli(),
			state:     process,
			arguments: request,
		})
	}
	if r.pending.large {
		return append(lines, line{kind: recordTooLarge, execution: r.id, at: now}), nil
	}
	endUnasked(r, 0)
	for _, n := range r.pending.steps.deletes {
		lines = append(lines, line{kind: stepEnded, execution: r.id, at: now, number: int64(n)})
	}
	for _, e := range r.pending.dirty {
		lines = append(lines, entryLine(r, *e))
	}
	if r.pending.steps.ended != nil {
		lines = append(lines, entryLine(r, r.pending.endedSteps()))
	}
	return lines, nil
}

// entryLine returns the encrypted form of an entry.
func entryLine(r *Record, e entry) line {
	l := line{kind: hostCall, execution: r.id, at: time.Now().UnixMilli(), number: int64(e.number), step: int64(e.ask.Step),
		method: e.ask.Method, server: e.ask.Ref.Server, tool: e.ask.Ref.Tool, state: e.state, arguments: r.cipher.encrypt(ofArguments,
			e.number, e.ask.Args)}
	if e.answer != nil {
		l.answer = r.cipher.encrypt(ofAnswer, e.number, e.answer)
	}
	return l
}

func putHostCall(ctx context.Context, tx *store.Tx, l line) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO run_events (execution, number, method, server, tool, state, step, arguments, answer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (execution, number) DO UPDATE SET state = excluded.state, answer = excluded.answer`,
		l.execution, l.number, l.method, l.server, l.tool, l.state, l.step, l.arguments, l.answer)
	return err
}

// enterRecord stores the run of a record.
func enterRecord(ctx context.Context, tx *store.Tx, l line) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO runs (execution, state, owner, created, changed, recorded, bytes, request) VALUES (?, 'running', ?, ?, ?, 1, ?, ?)
		ON CONFLICT (execution) DO UPDATE SET recorded = 1, created = min(created, excluded.created), changed = excluded.changed, bytes = excluded.bytes, request = excluded.request`,
		l.execution, l.state, l.created, l.at, len(l.arguments), l.arguments)
	return err
}

// emptyRecord deletes the host calls of a record and marks it as too large.
func emptyRecord(ctx context.Context, tx *store.Tx, id string, changed int64) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM run_events WHERE execution = ? AND number > 0", id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE runs SET recorded = 2, changed = ?, bytes = 0 WHERE execution = ?", changed, id)
	return err
}
