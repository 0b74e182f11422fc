package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// BackgroundState is the state of a background execution.
type BackgroundState string

const (
	Queued  BackgroundState = "queued"  // to be started, or resumed after its daemon ended
	Active  BackgroundState = "running" // a process runs it
	Waiting BackgroundState = "waiting" // it has no process until a time or a signal
	Ended   BackgroundState = "ended"
)

// BackgroundOutcome is how a background execution ended.
type BackgroundOutcome string

const (
	Succeeded    BackgroundOutcome = "completed"
	Unsuccessful BackgroundOutcome = "failed"
	Cancelled    BackgroundOutcome = "cancelled"
	Interrupted  BackgroundOutcome = "interrupted" // its daemon ended, and it is not resumed
)

// OnRestart tells what happens to a background execution whose daemon has ended.
type OnRestart string

const (
	ResumeOnRestart OnRestart = "resume" // it is resumed from its record, or started again if it had no side effects
	ReportOnRestart OnRestart = "report" // it ends as interrupted
)

// Limits of a tenant's background executions.
const (
	MaxBackground      = 10_000   // that have not ended
	maxBackgroundEnded = 1000     // that have; the oldest are deleted first
	maxBackgroundBytes = 8 << 20  // of one result
	maxSignals         = 100      // that an execution has not received
	MaxSignalBytes     = 64 << 10 // of one value in JSON
	// LeaseInterval is the time after which another process looks whether the process that runs a
	// background execution is alive.
	LeaseInterval = 2 * time.Second
)

// Background contains the background executions of a tenant, and the signals for executions. It
// uses the database and the keys of the log. Several processes may use it: each execution is
// claimed by one live process at a time.
type Background struct{ log *Log }

// Background returns the background executions of the tenant.
func (l *Log) Background() *Background { return &Background{l} }

// BackgroundEntry describes a background execution. The contents are JSON of the callers of this package.
type BackgroundEntry struct {
	Execution string
	State     BackgroundState
	Outcome   BackgroundOutcome // of an ended one
	OnRestart OnRestart
	Created   time.Time
	Changed   time.Time
	Due       time.Time // when a waiting or queued one runs; zero if only a signal resumes it
	Request   []byte
	Live      []byte // progress and output so far; nil for none
	Result    []byte // nil for none
	Alive     bool   // of a running one: its process lives
}

func (b *Background) box(id string) (box, error) {
	key, err := b.log.cfg.Process.key()
	if err != nil {
		return box{}, err
	}
	return newBox(key, b.log.cfg.Tenant.String(), id)
}

// The encrypted columns of background executions, and of signals.
var (
	ofTask   = ofExecution("journal_background", "request")
	ofLive   = ofExecution("journal_background", "live")
	ofResult = ofExecution("journal_background", "result")
	ofSignal = ofNumber("journal_signals", "value")
)

var errNoProcess = fault.New(fault.Unavailable, "background executions are not available in this process")

// update runs f in a transaction, and records when the tenant's next background execution is due.
func (b *Background) update(ctx context.Context, f func(*store.Tx) error) error {
	if b.log.cfg.Process == nil {
		return errNoProcess
	}
	return b.log.calls.Update(ctx, func(tx *store.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return b.touch(ctx, tx)
	})
}

// Add adds a background execution that is due now. One that is running belongs to this process.
func (b *Background) Add(ctx context.Context, e BackgroundEntry) error {
	return b.update(ctx, func(tx *store.Tx) error { return b.add(ctx, tx, e) })
}

func (b *Background) add(ctx context.Context, tx *store.Tx, e BackgroundEntry) error {
	x, err := b.box(e.Execution)
	if err != nil {
		return err
	}
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM journal_background WHERE state != 'ended'").Scan(&n); err != nil {
		return err
	}
	if n >= MaxBackground {
		return fault.New(fault.Exhausted, "%d background executions have not ended, which is the maximum", n).
			WithHint("wait for some of them, or cancel some with cancel_background_task")
	}
	process, due := "", sql.NullInt64{Int64: time.Now().UnixMilli(), Valid: true}
	if e.State == Active {
		due = sql.NullInt64{}
		if process, err = b.log.cfg.Process.name(); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO journal_background (execution, state, on_restart, process, created, changed, due, request) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (execution) DO UPDATE SET state = excluded.state, outcome = '', on_restart = excluded.on_restart, process = excluded.process, changed = excluded.changed,
			due = excluded.due, events = '', cancel = 0, request = excluded.request, live = NULL, result = NULL WHERE state = 'ended'`,
		e.Execution, string(e.State), string(e.OnRestart), process, time.Now().UnixMilli(), time.Now().UnixMilli(), due, x.encrypt(ofTask, 0, e.Request))
	return err
}

// Claim makes this process the owner of the execution that is due, or of the one whose process
// has ended; nil if there is none.
func (b *Background) Claim(ctx context.Context) (claimed *BackgroundEntry, err error) {
	err = b.update(ctx, func(tx *store.Tx) error {
		claimed = nil
		all, err := b.due(ctx, tx)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return nil
		}
		e := all[0]
		if err := b.decrypt(&e); err != nil {
			return err
		}
		claimed = &e
		process, err := b.log.cfg.Process.name()
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE journal_background SET state = 'running', process = ?, due = NULL, events = '', changed = ? WHERE execution = ?", process, time.Now().UnixMilli(), e.Execution)
		return err
	})
	return claimed, err
}

// clockStep is how far in the future a change of a row may be.
const clockStep = time.Second

// due returns the executions that may be claimed, the longest due first. The rows are few: those
// that wait for later are found by an index. One that began to wait in the future may be claimed,
// since the clock was put back: if it waits for a number of seconds, these may have passed.
func (b *Background) due(ctx context.Context, tx *store.Tx) (all []BackgroundEntry, err error) {
	own, err := b.log.cfg.Process.name()
	if err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, columns+`FROM journal_background WHERE state = 'running' AND process != ? OR state IN ('queued', 'waiting') AND (due <= ? OR due IS NOT NULL AND changed > ?)
		ORDER BY due IS NULL DESC, due, created LIMIT 1000`, own, time.Now().UnixMilli(), time.Now().Add(clockStep).UnixMilli())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		e, err := b.scan(rows)
		if err != nil {
			return nil, err
		}
		if !e.Alive {
			all = append(all, e)
		}
	}
	return all, rows.Err()
}

const columns = "SELECT execution, state, outcome, on_restart, process, created, changed, coalesce(due, 0), request, live, result "

func (b *Background) scan(rows interface{ Scan(...any) error }) (e BackgroundEntry, err error) {
	var process string
	var created, changed, due int64
	if err := rows.Scan(&e.Execution, &e.State, &e.Outcome, &e.OnRestart, &process, &created, &changed, &due, &e.Request, &e.Live, &e.Result); err != nil {
		return e, err
	}
	e.Created, e.Changed = time.UnixMilli(created).UTC(), time.UnixMilli(changed).UTC()
	if due != 0 {
		e.Due = time.UnixMilli(due).UTC()
	}
	e.Alive = e.State == Active && b.log.cfg.Process.isAlive(process)
	return e, nil
}

// decrypt decrypts the contents of e.
func (b *Background) decrypt(e *BackgroundEntry) error {
	x, err := b.box(e.Execution)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		column sealed.Column
		text   *[]byte
	}{{ofTask, &e.Request}, {ofLive, &e.Live}, {ofResult, &e.Result}} {
		if *part.text == nil {
			continue
		}
		if *part.text, err = x.decrypt(part.column, 0, *part.text); err != nil {
			return err
		}
	}
	return nil
}

// Find returns a background execution; NotFound if there is none.
func (b *Background) Find(ctx context.Context, id string) (e BackgroundEntry, err error) {
	if b.log.cfg.Process == nil {
		return e, unknownBackground(id)
	}
	err = b.log.cfg.DB.View(ctx, func(tx *store.Tx) error {
		e, err = b.scan(tx.QueryRowContext(ctx, columns+"FROM journal_background WHERE execution = ?", id))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return e, unknownBackground(id)
	}
	if err != nil {
		return e, err
	}
	return e, b.decrypt(&e)
}

func unknownBackground(id string) error {
	return fault.New(fault.NotFound, "there is no background execution %.60q", id).
		WithHint("list_background_tasks, or `sandpiper executions list --background`, lists them; results are kept for a limited time")
}

// foreground marks an execution that ran in the foreground.
const foreground OnRestart = ""

// List returns the latest background executions, the latest first.
func (b *Background) List(ctx context.Context, most int) (all []BackgroundEntry, err error) {
	if b.log.cfg.Process == nil {
		return nil, nil
	}
	err = b.log.cfg.DB.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, columns+"FROM journal_background WHERE on_restart != '' ORDER BY state = 'ended', created DESC, execution LIMIT ?", most)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			e, err := b.scan(rows)
			if err != nil {
				return err
			}
			all = append(all, e)
		}
		return rows.Err()
	})
	for i := range all {
		if err == nil {
			err = b.decrypt(&all[i])
		}
	}
	return all, err
}

// SetRequest replaces the request of an execution that this process runs.
func (b *Background) SetRequest(ctx context.Context, id string, request []byte) error {
	return b.set(ctx, id, ofTask, request)
}

// SetResult stores a result that is final only if the process ends before End.
func (b *Background) SetResult(ctx context.Context, id string, result []byte) error {
	return b.set(ctx, id, ofResult, result)
}

func (b *Background) set(ctx context.Context, id string, c sealed.Column, text []byte) error {
	x, err := b.box(id)
	if err != nil {
		return err
	}
	return b.update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE journal_background SET "+c.Name+" = ? WHERE execution = ? AND state != 'ended'", x.encrypt(c, 0, text), id)
		return err
	})
}

// SetLive stores the progress of an execution that this process runs. It reports whether the
// execution is to be cancelled.
func (b *Background) SetLive(ctx context.Context, id string, live []byte) (cancelled bool, err error) {
	x, err := b.box(id)
	if err != nil {
		return false, err
	}
	update := b.log.cfg.DB.UpdateDeferredSync
	if live == nil {
		update = b.log.cfg.DB.View
	}
	err = update(ctx, func(tx *store.Tx) error {
		if live != nil {
			if _, err := tx.ExecContext(ctx, "UPDATE journal_background SET live = ?, changed = ? WHERE execution = ?", x.encrypt(ofLive, 0, live), time.Now().UnixMilli(), id); err != nil {
				return err
			}
		}
		return tx.QueryRowContext(ctx, "SELECT coalesce(max(cancel), 0) FROM journal_background WHERE execution = ?", id).Scan(&cancelled)
	})
	return cancelled, err
}
