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

// RunOutcome is how a run ended.
type RunOutcome string

const (
	Succeeded    RunOutcome = "completed"
	Unsuccessful RunOutcome = "failed"
	Cancelled    RunOutcome = "cancelled"
	Interrupted  RunOutcome = "interrupted" // its daemon ended, and it is not resumed
)

// Reason is why a run waits for a person, or how its code ended: a constant of this package, or the
// status of its last execution.
type Reason string

const (
	Planned   Reason = "planned"   // it is a plan that was not applied to its end
	Suspended Reason = "suspended" // it asks a person
	TooLarge  Reason = "too_large" // its record exceeded the limits: it cannot be replayed
)

// OnRestart selects the action of a daemon for a run whose owner has died.
type OnRestart string

const (
	ResumeOnRestart OnRestart = "resume" // it is continued from its record, or started again if it has none
	ReportOnRestart OnRestart = "report" // it ends as interrupted
	byPerson        OnRestart = ""       // nothing: a person resumes it
)

// Limits of a tenant's background executions.
const (
	MaxBackground      = 10_000   // that have not ended
	maxBackgroundEnded = 1000     // that have; the oldest are deleted first
	MaxResultBytes     = 8 << 20  // of one result
	maxSignals         = 100      // that an execution has not received
	MaxSignalBytes     = 64 << 10 // of one value in JSON
	// LeaseInterval is the time after which another process looks whether the process that runs a
	// background execution is alive.
	LeaseInterval = 2 * time.Second
)

// Runs contains the runs of a tenant that are stored: background executions, those that wait, those that
// can be resumed and those whose result is kept; and the signals for them. It uses the database and the
// keys of the log. Several processes may use it: each run has one owner at a time.
type Runs struct{ log *Log }

// Runs returns the runs of the tenant.
func (l *Log) Runs() *Runs { return &Runs{l} }

// Run describes a run. The contents are JSON of the callers of this package.
type Run struct {
	Execution string
	State     State
	Outcome   RunOutcome // of an ended one
	OnRestart OnRestart
	Workflow  string // that it runs; "" for none
	Version   string // of the workflow
	Created   time.Time
	Changed   time.Time
	Due       time.Time // when a waiting or queued one runs; zero if only a signal or a person resumes it
	Recorded  bool      // it has a record
	Request   []byte
	Live      []byte // progress and output so far; nil for none
	Result    []byte // nil for none
	Alive     bool   // of a running one: its process lives
	Cancelled bool   // a person has cancelled it while it ran
}

// The encrypted columns of runs.
var (
	ofRequest = ofExecution("runs", "request")
	ofLive    = ofExecution("runs", "live")
	ofResult  = ofExecution("runs", "result")
)

var errNoProcess = fault.New(fault.Unavailable, "background executions are not available in this process")

// cipher returns the cipher of a run.
func (l *Log) cipher(id string) (cipher, error) {
	key, err := l.cfg.Process.key()
	if err != nil {
		return cipher{}, err
	}
	return newCipher(key, l.cfg.Tenant.String(), id)
}

// update runs f in a transaction, and records when the tenant's next run is due.
func (l *Log) update(ctx context.Context, f func(*store.Tx) error) error {
	if l.cfg.Process == nil {
		return errNoProcess
	}
	return l.calls.Update(ctx, func(tx *store.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return touch(ctx, l, tx)
	})
}

// Add adds a background execution that is due now, or makes one of an execution that this process runs.
func (b *Runs) Add(ctx context.Context, r Run) error {
	return b.log.update(ctx, func(tx *store.Tx) error { return addRun(ctx, b.log, tx, r) })
}

func addRun(ctx context.Context, l *Log, tx *store.Tx, r Run) error {
	x, err := l.cipher(r.Execution)
	if err != nil {
		return err
	}
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM runs WHERE on_restart != '' AND state != 'ended'").Scan(&n); err != nil {
		return err
	}
	if n >= MaxBackground {
		return fault.New(fault.Exhausted, "%d background executions have not ended, which is the maximum", n).
			WithHint("wait for some of them, or cancel some with cancel_background_task")
	}
	from, of, err := position(ctx, l.cfg.Process, tx, r.Execution)
	if err != nil {
		return err
	}
	if !add.allows(from, r.State, of) {
		return elsewhere(r.Execution)
	}
	owner, due := "", sql.NullInt64{Int64: time.Now().UnixMilli(), Valid: true}
	if r.State == Running {
		due = sql.NullInt64{}
		if owner, err = l.cfg.Process.name(); err != nil {
			return err
		}
	}
	now := time.Now().UnixMilli()
	_, err = tx.ExecContext(ctx, `INSERT INTO runs (execution, state, on_restart, owner, created, changed, due, request) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (execution) DO UPDATE SET state = excluded.state, outcome = '', reason = '', on_restart = excluded.on_restart, owner = excluded.owner, changed = excluded.changed,
			due = excluded.due, events = '', cancel = 0, request = coalesce(request, excluded.request), live = NULL, result = NULL`,
		r.Execution, string(r.State), string(r.OnRestart), owner, now, now, due, x.encrypt(ofRequest, 0, r.Request))
	return err
}

const columns = "SELECT execution, state, outcome, on_restart, owner, created, changed, coalesce(due, 0), recorded > 0, workflow, " +
	"version, request, live, result, cancel FROM runs "

func scanRun(l *Log, rows interface{ Scan(...any) error }) (r Run, err error) {
	var owner string
	var created, changed, due int64
	if err := rows.Scan(&r.Execution, &r.State, &r.Outcome, &r.OnRestart, &owner, &created, &changed, &due, &r.Recorded, &r.Workflow,
		&r.Version, &r.Request, &r.Live, &r.Result, &r.Cancelled); err != nil {
		return r, err
	}
	r.Created, r.Changed = time.UnixMilli(created).UTC(), time.UnixMilli(changed).UTC()
	if due != 0 {
		r.Due = time.UnixMilli(due).UTC()
	}
	r.Alive = r.State == Running && l.cfg.Process.isAlive(owner)
	return r, nil
}

// decryptRun decrypts the contents of r.
func decryptRun(l *Log, r *Run) error {
	x, err := l.cipher(r.Execution)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		column sealed.Column
		text   *[]byte
	}{{ofRequest, &r.Request}, {ofLive, &r.Live}, {ofResult, &r.Result}} {
		if *part.text == nil {
			continue
		}
		if *part.text, err = x.decrypt(part.column, 0, *part.text); err != nil {
			return err
		}
	}
	return nil
}

// Find returns a run that is in the background or has ended; NotFound if there is none.
func (b *Runs) Find(ctx context.Context, id string) (r Run, err error) {
	if b.log.cfg.Process == nil {
		return r, unknownBackground(id)
	}
	err = b.log.calls.View(ctx, func(tx *store.Tx) error {
		r, err = scanRun(b.log, tx.QueryRowContext(ctx, columns+
			"WHERE execution = ? AND (on_restart != '' OR state = 'ended' AND result IS NOT NULL)", id))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return r, unknownBackground(id)
	}
	if err != nil {
		return r, err
	}
	return r, decryptRun(b.log, &r)
}

func unknownBackground(id string) error {
	return fault.New(fault.NotFound, "there is no background execution %.60q", id).
		WithHint("list_background_tasks, or `sandpiper executions list --background`, lists them; results are kept for a limited time")
}

// List returns the latest background executions, the latest first.
func (b *Runs) List(ctx context.Context, most int) (all []Run, err error) {
	if b.log.cfg.Process == nil {
		return nil, nil
	}
	err = b.log.calls.View(ctx, func(tx *store.Tx) error {
		all, err = selectRuns(ctx, b.log, tx, "WHERE on_restart != '' ORDER BY state = 'ended', created DESC, execution LIMIT ?", most)
		return err
	})
	for i := range all {
		if err == nil {
			err = decryptRun(b.log, &all[i])
		}
	}
	return all, err
}

// selectRuns returns the runs that match a condition, with encrypted contents.
func selectRuns(ctx context.Context, l *Log, tx *store.Tx, where string, args ...any) (all []Run, err error) {
	rows, err := tx.QueryContext(ctx, columns+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanRun(l, rows)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// SetRequest replaces the request of an execution that this process runs.
func (b *Runs) SetRequest(ctx context.Context, id string, request []byte) error {
	x, err := b.log.cipher(id)
	if err != nil {
		return err
	}
	return b.log.calls.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE runs SET request = ? WHERE execution = ? AND state != 'ended'",
			x.encrypt(ofRequest, 0, request), id)
		return err
	})
}

// SetLive stores the progress of an execution, if this process still runs it. It reports whether the
// execution is to be cancelled.
func (b *Runs) SetLive(ctx context.Context, id string, live []byte) (cancelled bool, err error) {
	x, err := b.log.cipher(id)
	if err != nil {
		return false, err
	}
	own, err := b.log.cfg.Process.name()
	if err != nil {
		return false, err
	}
	update := b.log.cfg.DB.UpdateDeferredSync
	if live == nil {
		update = b.log.cfg.DB.View
	}
	err = update(ctx, func(tx *store.Tx) error {
		if live != nil {
			if _, err := tx.ExecContext(ctx, "UPDATE runs SET live = ?, changed = ? WHERE execution = ? AND state = 'running' AND "+
				"owner = ?", x.encrypt(ofLive, 0, live), time.Now().UnixMilli(), id, own); err != nil {
				return err
			}
		}
		return tx.QueryRowContext(ctx, "SELECT coalesce(max(cancel), 0) FROM runs WHERE execution = ?", id).Scan(&cancelled)
	})
	return cancelled, err
}
