package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Request returns the stored request of the execution that runs a schedule. It is called in a
// transaction, and must not use the database.
type Request func(Spec) ([]byte, error)

// Pass is the result of HandleDue.
type Pass struct {
	Started []string  // executions
	Next    time.Time // when to call HandleDue again; zero means never
}

// errNothing rolls back a transaction that changes nothing.
var errNothing = errors.New("nothing is due")

// HandleDue handles the due times until now of the configured schedules and of those that were
// created by an agent. A schedule that cannot be run does not affect others: broken is called with its
// error.
func (s *Store) HandleDue(ctx context.Context, now time.Time, configured []Spec, request Request, broken func(Spec, error)) (p Pass,
	err error) {
	try := func(tx *store.Tx) (err error) {
		d := due{Store: s, tx: tx, now: now, request: request, broken: map[string]error{}}
		if err := d.run(ctx, configured); err != nil {
			return err
		}
		p = Pass{d.started, d.next}
		for _, r := range d.rows {
			if err := d.broken[r.spec.Name]; err != nil && broken != nil {
				broken(r.spec, err)
			}
		}
		if !d.changed {
			return errNothing
		}
		return s.touch(ctx, tx, d.rows, now)
	}
	// Usually nothing is due: this is found out without a lock.
	view := func(tx *store.Tx) error {
		d := due{
			Store:   s,
			tx:      tx,
			now:     now,
			dry:     true,
			request: request,
			broken:  map[string]error{},
		}
		err := d.run(ctx, configured)
		if p = (Pass{Next: d.next}); err == nil && d.changed {
			return errNothing
		}
		return err
	}
	switch err := s.cfg.In.DB.View(ctx, view); {
	case err == nil:
		return p, nil
	case !errors.Is(err, errNothing):
		return Pass{}, err
	}
	if err := s.cfg.In.DB.Update(ctx, try); err != nil && !errors.Is(err, errNothing) {
		return Pass{}, err
	}
	return p, nil
}

// due handles due times in a transaction.
type due struct {
	*Store
	tx      *store.Tx
	now     time.Time
	dry     bool // only find out whether something changes
	request Request
	broken  map[string]error

	rows    []row
	runs    map[string][]numbered // that have not ended, by schedule
	changed bool
	started []string
	next    time.Time
}

// soon is when runs that have not ended are looked at again.
const soon = time.Second

func (d *due) run(ctx context.Context, configured []Spec) (err error) {
	if d.rows, err = d.Store.rows(ctx, d.tx, configured); err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	for i := range d.rows {
		r := &d.rows[i]
		if r.broken != nil {
			d.broken[r.spec.Name] = r.broken
			continue
		}
		if len(d.started) >= maxStartsAtOnce {
			d.wake(d.now)
			break
		}
		if err := d.one(ctx, r); err != nil {
			return err
		}
		if len(d.runs[r.spec.Name]) > 0 {
			d.wake(d.now.Add(soon))
		}
		d.wake(r.next(d.now))
	}
	return nil
}

// wake lets the next pass be at t, if that is earlier.
func (d *due) wake(t time.Time) {
	if !t.IsZero() && (d.next.IsZero() || t.Before(d.next)) {
		d.next = t
	}
}

// settle stores the outcomes of the runs that have ended.
func (d *due) settle(ctx context.Context) error {
	all, err := d.unfinished(ctx, d.tx, "")
	if err != nil {
		return err
	}
	d.runs = map[string][]numbered{}
	for _, r := range all {
		if !r.ended {
			d.runs[r.schedule] = append(d.runs[r.schedule], r)
			continue
		}
		if d.changed = true; d.dry {
			continue
		}
		if _, err := d.tx.ExecContext(ctx, "UPDATE schedule_runs SET state = ?, ended = ? WHERE number = ?", r.State, millis(d.now),
			r.number); err != nil {
			return err
		}
	}
	return nil
}

// one handles the due time of a schedule, and starts its oldest waiting run.
func (d *due) one(ctx context.Context, r *row) error {
	changed := r.refresh(d.now)
	if r.putBack > 0 {
		if err := d.record(ctx, r, d.now.Add(r.putBack), clockPutBack, ""); err != nil {
			return err
		}
	}
	if at := r.cal.Last(r.anchor, r.handled, d.now); !at.IsZero() {
		r.handled, changed = at, true
		if err := d.handle(ctx, r, at); err != nil {
			return err
		}
	}
	if err := d.startWaiting(ctx, r); err != nil {
		return err
	}
	if !changed {
		return nil
	}
	if d.changed = true; d.dry {
		return nil
	}
	return d.write(ctx, d.tx, *r)
}

// handle decides about one due time.
func (d *due) handle(ctx context.Context, r *row, at time.Time) error {
	open := d.runs[r.spec.Name]
	switch {
	case r.paused:
		return nil
	case r.spec.OnMissed == SkipMissed && d.now.Sub(at) > grace:
		return d.record(ctx, r, at, Passed, "")
	case len(open) == 0:
		return d.start(ctx, r, at, 0)
	case r.spec.OnOverlap != QueueOverlap || len(open) > maxWaiting:
		return d.record(ctx, r, at, Skipped, "")
	}
	return d.record(ctx, r, at, Waiting, "")
}

// startWaiting starts the oldest waiting run, if no other run is open.
func (d *due) startWaiting(ctx context.Context, r *row) error {
	open := d.runs[r.spec.Name]
	if r.paused || len(open) == 0 || open[0].State != Waiting {
		return nil
	}
	return d.start(ctx, r, open[0].Due, open[0].number)
}

// start adds the execution of a run. number is the row of a waiting one, or 0.
func (d *due) start(ctx context.Context, r *row, at time.Time, number int64) error {
	d.changed = true
	id := newExecution()
	d.started = append(d.started, id)
	if d.dry {
		return nil
	}
	request, err := d.request(r.spec)
	if err != nil {
		d.broken[r.spec.Name] = err
		d.started = d.started[:len(d.started)-1]
		return d.fail(ctx, r, at, number)
	}
	if err := d.cfg.Executions.AddIn(ctx, d.tx, id, request); err != nil {
		return err
	}
	d.runs[r.spec.Name] = append([]numbered{{Run: Run{Due: at, Execution: id, State: Started}}}, d.runs[r.spec.Name]...)
	if number == 0 {
		return d.record(ctx, r, at, Started, id)
	}
	_, err = d.tx.ExecContext(ctx, "UPDATE schedule_runs SET state = 'started', execution = ?, handled = ? WHERE number = ?", id,
		millis(d.now), number)
	return err
}

// failed is the outcome of a run whose request could not be made.
const failed = "failed"

func (d *due) fail(ctx context.Context, r *row, at time.Time, number int64) error {
	if number == 0 {
		return d.record(ctx, r, at, failed, "")
	}
	_, err := d.tx.ExecContext(ctx, "UPDATE schedule_runs SET state = 'failed', ended = ? WHERE number = ?", millis(d.now), number)
	return err
}

// record adds a run, and deletes the oldest ones of the schedule.
func (d *due) record(ctx context.Context, r *row, at time.Time, state, execution string) error {
	if d.changed = true; d.dry {
		return nil
	}
	ended := int64(0)
	if state != Started && state != Waiting {
		ended = millis(d.now)
	}
	_, err := d.tx.ExecContext(ctx, "INSERT INTO schedule_runs (schedule, due, handled, state, execution, ended) VALUES (?, ?, ?, ?, ?, ?)",
		r.spec.Name, millis(at), millis(d.now), state, execution, ended)
	if err != nil {
		return err
	}
	if state == Waiting {
		d.runs[r.spec.Name] = append(d.runs[r.spec.Name], numbered{Run: Run{Due: at, State: Waiting}})
	}
	_, err = d.tx.ExecContext(ctx, `DELETE FROM schedule_runs WHERE schedule = ? AND state NOT IN ('started', 'waiting') AND number <=
		(SELECT number FROM schedule_runs WHERE schedule = ? ORDER BY number DESC LIMIT 1 OFFSET ?)`, r.spec.Name, r.spec.Name, maxRuns)
	return err
}

// Touch calls Config.Due with the time of the next run. HandleDue does so if it has changed anything.
func (s *Store) Touch(ctx context.Context, now time.Time, configured []Spec) error {
	return s.update(ctx, now, configured, func(*store.Tx, []row) error { return nil })
}

// touch passes the time of the next run of a schedule of an agent to Config.Due.
func (s *Store) touch(ctx context.Context, tx *store.Tx, rows []row, now time.Time) error {
	if s.cfg.Due == nil {
		return nil
	}
	open, err := s.unfinished(ctx, tx, "")
	if err != nil {
		return err
	}
	busy := map[string]bool{}
	for _, r := range open {
		busy[r.schedule] = true
	}
	var next time.Time
	for _, r := range rows {
		at := r.next(now)
		if busy[r.spec.Name] {
			at = now.Add(soon)
		}
		if r.source == Agent && !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return s.cfg.Due(next)
}
